// Properties of the simulated Timeline over random Jobs, checked against the Program by other means
// than the simulator's own.
#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "planner/program/instances/cursor.h"
#include "sim/simulate.h"
#include "tests/support/meshes.h"
#include "tests/unit/sim/random_job.h"

namespace zplan::sim {
namespace {

using LaneSpans = std::array<std::vector<Span>, kLaneCount>;

LaneSpans by_lane(const RankTimeline& rank) {
  LaneSpans lanes;
  for (const Span& span : rank.spans) lanes[static_cast<std::size_t>(span.lane)].push_back(span);
  return lanes;
}

SimResult record(const Job& job, const Cluster& cluster) {
  SimOptions options;
  options.record_timeline = true;
  return simulate(job, cluster, options);
}

// Every lane holds its instances in program order, one after the other, after their edges.
void check_class(const Program& program, const LaneSpans& lanes) {
  const ProgramIndex index(program);
  for (std::size_t l = 0; l < kLaneCount; ++l) {
    if (lanes[l].empty()) continue;
    Cursor cursor(index, static_cast<Lane>(l));
    SimTime free{0};
    for (const Span& span : lanes[l]) {
      const Node& node = program.nodes[cursor->node];
      RC_ASSERT(span.op == op_id(node.role, cursor->env));
      RC_ASSERT(span.step == cursor->step());
      RC_ASSERT(free <= span.ready && span.ready <= span.start && span.start < span.end);
      for (const Edge& edge : program.after(node)) {
        const auto threshold = index.resolve(edge, cursor->iterations);
        if (!threshold) continue;
        const auto& other = lanes[static_cast<std::size_t>(threshold->lane)];
        RC_ASSERT(other[static_cast<std::size_t>(threshold->completed - 1)].end <= span.ready);
      }
      free = span.end;
      cursor.advance();
    }
  }
}

RC_GTEST_PROP(SimulateProperty, LanesRunInOrderAfterTheirEdges, ()) {
  const Job job = RandomJob().make();
  const SimResult result = record(job, RandomJob::machine());
  for (std::size_t stage = 0; stage < job.classes.size(); ++stage) {
    check_class(job.classes[stage].program, by_lane(result.timeline.ranks[stage]));
  }
}

RC_GTEST_PROP(SimulateProperty, WhatMeetsStartsAndEndsTogether, ()) {
  const Job job = RandomJob().make();
  const SimResult result = record(job, RandomJob::machine());
  std::vector<LaneSpans> classes;
  for (const RankTimeline& rank : result.timeline.ranks) classes.push_back(by_lane(rank));
  const auto is_world = [](const Node& node) {
    return node.kind == OpKind::kCollective && node.group == testing_support::groups::kWorld;
  };
  std::vector<std::vector<Span>> meetings(classes.size());
  const auto lane = static_cast<std::size_t>(Lane::kCommReduce);
  for (std::size_t stage = 0; stage < classes.size(); ++stage) {
    if (classes[stage][lane].empty()) continue;
    const ProgramIndex index(job.classes[stage].program);
    Cursor cursor(index, Lane::kCommReduce);
    for (const Span& span : classes[stage][lane]) {
      if (is_world(index.program().nodes[cursor->node])) meetings[stage].push_back(span);
      cursor.advance();
    }
    RC_ASSERT(meetings[stage].size() == meetings[0].size());
    for (std::size_t i = 0; i < meetings[stage].size(); ++i) {
      RC_ASSERT(meetings[stage][i].start == meetings[0][i].start);
      RC_ASSERT(meetings[stage][i].end == meetings[0][i].end);
    }
  }
}

RC_GTEST_PROP(SimulateProperty, TheSplitOfTheTimeAddsUpToThePeriod, ()) {
  const SimResult result = record(RandomJob().make(), RandomJob::machine());
  double sum = 0;
  for (const Seconds part : result.split.parts) {
    RC_ASSERT(part.value >= 0);
    sum += part.value;
  }
  RC_ASSERT(std::abs(sum - result.period.value) <= 1e-9 * result.period.value);
}

RC_GTEST_PROP(SimulateProperty, SharesAreFractions, ()) {
  const SimResult result = record(RandomJob().make(), RandomJob::machine());
  constexpr double kRoundoff = 1e-9;
  for (const LaneReport& lane : result.lanes) {
    RC_ASSERT(0 <= lane.busy_share && lane.busy_share <= 1 + kRoundoff);
  }
  for (const LinkReport& link : result.links) {
    RC_ASSERT(0 <= link.utilisation && link.utilisation <= 1 + kRoundoff);
  }
  for (std::size_t i = 1; i < result.limits.size(); ++i) {
    RC_ASSERT(result.limits[i - 1].share >= result.limits[i].share);
  }
}

}  // namespace
}  // namespace zplan::sim
