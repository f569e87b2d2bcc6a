#include "sim/requirements.h"

#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tests/unit/sim/random_job.h"

namespace zplan::sim {
namespace {

// The strictest count of each lane, of reuse edges and of the others.
using Strictest = std::array<std::array<std::int64_t, kLaneCount>, 2>;

void demand(Strictest& strictest, Lane lane, bool reuse, std::int64_t completed) {
  std::int64_t& known = strictest[reuse ? 1 : 0][static_cast<std::size_t>(lane)];
  known = std::max(known, completed);
}

RC_GTEST_PROP(Requirements, DemandWhatTheEdgesDemandAtEveryInstance, ()) {
  const Job job = RandomJob().make();
  const ProgramIndex index(job.classes[0].program);
  const Requirements requirements(index);
  constexpr std::int64_t kSteps = 4;
  for (Cursor cursor(index, std::nullopt); cursor->step() < kSteps; cursor.advance()) {
    Strictest expected{}, got{};
    for (const Edge& edge : index.program().after(index.program().nodes[cursor->node])) {
      const auto threshold = index.resolve(edge, cursor->iterations);
      if (threshold) demand(expected, threshold->lane, threshold->reuse, threshold->completed);
    }
    const std::size_t depths = requirements.depths(cursor->node);
    for (const Requirement& requirement : requirements.of(cursor->node)) {
      if (!requirement.binds(cursor->iterations)) continue;
      demand(got, requirement.lane, requirement.reuse,
             requirement.completed(cursor->iterations, depths));
    }
    RC_ASSERT(got == expected);
  }
}

TEST(Requirements, KeepTheStrictestOfEdgesThatDifferInTheNodeOnly) {
  ClassBuilder program;
  Edge to_first, to_second;
  to_first.node = program.stream(Lane::kCommGather, 4);
  to_second.node = program.stream(Lane::kCommGather, 4);
  const NodeIndex waiting = program.stream(Lane::kCompute, 4, {to_second, to_first});
  const Program finished = program.finish();
  const ProgramIndex index(finished);
  const Requirements requirements(index);
  ASSERT_EQ(requirements.of(waiting).size(), 1u);
  EXPECT_EQ(requirements.of(waiting)[0].completed(Iterations{}, 1), 2);
}

}  // namespace
}  // namespace zplan::sim
