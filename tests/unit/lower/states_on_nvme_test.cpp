// Optimizer states on NVMe: in which order they come and go, and what waits for what.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/program/verify/verify.h"
#include "tests/support/timeline.h"

namespace zplan {
namespace {

// Updated after backward, or beside it. The steps are longer than the drive needs.
Plan plan_of(bool beside_backward) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.precision = default_recipe(plan.kernel_set);
  plan.placement.optimizer = Tier::kNvme;
  plan.gather = Gather::kLayer;
  plan.clip = !beside_backward;
  plan.overlap.optimizer = beside_backward;
  plan.batch = {.global_batch = 64, .micro_batch = 64, .sequence = 32};
  return plan;
}

// The parts of the model whose states a lane moves, in its order.
std::vector<Part> moved(const Program& program, Lane lane) {
  std::vector<Part> parts;
  for (const Node& node : program.nodes)
    if (node.lane == lane && node.role.phase == Phase::kUpdate) parts.push_back(node.role.part);
  return parts;
}

bool is_layer(Part part) { return part == Part::kLayer; }

class StatesOnNvme : public testing::TestWithParam<bool> {};

TEST_P(StatesOnNvme, OutsideTheLayersAreReadBeforeThemAndWrittenAfterThem) {
  const Job job = testing_support::placed_job(plan_of(GetParam()));
  EXPECT_TRUE(verify(job).empty());
  const auto read = moved(job.classes.front().program, Lane::kIoRead);
  const auto written = moved(job.classes.front().program, Lane::kIoWrite);
  EXPECT_EQ(read.size(), written.size());
  const auto layers = std::count_if(read.begin(), read.end(), is_layer);
  EXPECT_EQ(std::find_if(read.begin(), read.end(), is_layer), read.end() - layers);
  EXPECT_EQ(std::find_if_not(written.begin(), written.end(), is_layer), written.begin() + layers);
}

// Nor for the norm, nor until another one is written.
TEST_P(StatesOnNvme, OutsideTheLayersAreReadBeforeBackwardEnds) {
  const Plan plan = plan_of(GetParam());
  const std::vector<Span> spans = testing_support::spans_of(plan);
  const auto last = std::max_element(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
                      return a.step < b.step;
                    })->step;
  SimTime backward_ends{0};
  for (const Span& span : spans)
    if (span.step == last && role_of(span.op).phase == Phase::kBackward)
      backward_ends = std::max(backward_ends, span.end);
  int read = 0;
  for (const Span& span : spans) {
    if (span.step != last || span.lane != Lane::kIoRead || is_layer(role_of(span.op).part))
      continue;
    EXPECT_LT(span.end, backward_ends) << name(role_of(span.op));
    ++read;
  }
  EXPECT_EQ(read, 3 * 3);  // three states of embedding, positions and the last norm
}

INSTANTIATE_TEST_SUITE_P(Updates, StatesOnNvme, testing::Bool(), [](const auto& info) {
  return info.param ? "BesideBackward" : "AfterBackward";
});

}  // namespace
}  // namespace zplan
