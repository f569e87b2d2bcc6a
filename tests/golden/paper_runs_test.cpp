// Published step times against simulated ones: tests/data/paper_runs.json, the plans of
// [Rajbhandari21 Table 1] with the rates of its Fig. 5, run by the stack of the paper
// (hwprofiles/stacks/deepspeed_infinity.json). Two of its rates are fitted to the five rows of one
// node; the row over 32 nodes takes no part in the fit.
//
// Each row has its goal, 12 % on one node, 8 % on 32. A known miss must miss, so that none stays on
// the list once it is mended.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"
#include "sim/simulate.h"
#include "tests/support/placed_job.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

using testing_support::placed_job;

constexpr double kMostOff = 0.2;  // known misses included

struct Row {
  std::string name;
  double step_s = 0, goal = 0;
  bool known_miss = false;
  Plan plan;
};

std::vector<Row> rows() {
  std::ifstream file(ZPLAN_SOURCE_DIR "/tests/data/paper_runs.json");
  const nlohmann::json data = nlohmann::json::parse(file);
  std::vector<Row> result;
  for (const auto& row : data["rows"]) {
    const std::string name = row["name"];
    result.push_back({name, row["step_s"], row["goal"], row.contains("known_miss"),
                      plan_from_json(row["plan"].dump(), name)});
  }
  return result;
}

// The cluster that the row names, with the software of the paper.
Cluster cluster_of(const Row& row) {
  Cluster cluster = load_cluster(row.plan.hardware);
  cluster.stack = load_stack("deepspeed_infinity").rates;
  return cluster;
}

double part(const sim::SimResult& result, sim::TimePart which) {
  return result.split.parts[static_cast<std::size_t>(which)].value;
}

TEST(PaperRuns, SimulatedStepTimesMeetTheirGoals) {
  ASSERT_EQ(rows().size(), 6u);
  for (const Row& row : rows()) {
    const Cluster cluster = cluster_of(row);
    const sim::SimResult result = sim::simulate(placed_job(row.plan), cluster);
    EXPECT_TRUE(result.steady) << row.name;
    const double off = std::abs(result.period.value / row.step_s - 1);
    EXPECT_EQ(off > row.goal, row.known_miss) << row.name << ": " << off;
    EXPECT_LT(off, kMostOff) << row.name;
  }
}

// [Rajbhandari21 Table 1] trained it. States of 16 bytes per parameter alone leave 2.4 GiB of a
// GPU; an attention that stores its scores has 20 sequences x 64 heads x 1024^2 of them, 2.5 GiB,
// three times over in backward: probabilities, those replayed, their gradient.
TEST(PaperRuns, TheStatesOf1TOn512GpusLeaveNoRoomForItsActivations) {
  const Row row = rows().back();
  const Cluster cluster = load_cluster(row.plan.hardware);
  const MemoryUse use = memory_use(placed_job(row.plan), cluster);
  const TierUse& gpu = use[static_cast<std::size_t>(Tier::kGpu)];
  const auto gib = [](Bytes bytes) { return static_cast<double>(bytes.value) / (1 << 30); };
  const auto held = [&](Category category) {
    return gib(gpu.by_category[static_cast<std::size_t>(category)]);
  };
  EXPECT_NEAR(held(Category::kParameters) + held(Category::kGradients) + held(Category::kOptimizer),
              29.3, 0.1);
  EXPECT_FALSE(gpu.fits());
  EXPECT_NEAR(gib(gpu.over()) - gib(gpu.headroom), 23.3, 0.1);
}

// What the paper says of the rows: with the states on the GPUs all communication hides; optimizer
// states on NVMe are read and written while the GPUs stand still.
TEST(PaperRuns, TheUpdateFromNvmeIsExposedAndCommunicationIsNot) {
  for (const Row& row : rows()) {
    const sim::SimResult result = sim::simulate(placed_job(row.plan), cluster_of(row));
    const double io = part(result, sim::TimePart::kIoRead) + part(result, sim::TimePart::kIoWrite);
    const double period = result.period.value;
    if (row.plan.placement.optimizer == Tier::kNvme) {
      EXPECT_GT(io + part(result, sim::TimePart::kCpu), 0.1 * period) << row.name;
      EXPECT_GT(io, 0.01 * period) << row.name;
    } else {
      EXPECT_EQ(io, 0) << row.name;
      EXPECT_GT(part(result, sim::TimePart::kCompute), 0.95 * period) << row.name;
    }
    EXPECT_LT(part(result, sim::TimePart::kGatherReduce), 0.01 * period) << row.name;
  }
}

}  // namespace
}  // namespace zplan
