#include "planner/validate/run_homes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/search/homes/families.h"
#include "planner/search/stack_memory_use.h"
#include "planner/validate/record_plan.h"
#include "planner/validate/run_words.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

// The published run of that name, planned as its record says.
PlannedRun planned(const std::string& id, const StackProfile* stack = nullptr) {
  static const RunCatalogues catalogues;
  static const RunFile file = read_runs(ZPLAN_SOURCE_DIR "/tests/data/published_runs.jsonl");
  for (const RunRecord& run : file.runs)
    if (run.id == id) return plan_run(run, catalogues, stack);
  throw std::out_of_range(id);
}

// [Korthikanti22 Table 5] On GPUs with no more memory than what the paper chooses takes.
Cluster with_memory_of(const PlannedRun& run) {
  Cluster cluster = run.cluster;
  cluster.memory = {};
  cluster.headroom = 0;
  DeviceProfile& device = cluster.node.device;
  const Fit fit = make_evaluator(run.model, cluster).fit(run.plan);
  device.memory = fit.gpu + device.reserve() + reserve_margin(device);
  return cluster;
}

std::optional<Seconds> chosen_step(const PlannedRun& run, const Cluster& cluster) {
  const Evaluator evaluator = make_evaluator(run.model, cluster);
  const auto chosen = choose_fitting_homes(ask_homes(run.plan, run.model, cluster), {},
                                           shape_of(run.model), evaluator.fit);
  return chosen ? std::optional(evaluator.simulate(chosen->plan)) : std::nullopt;
}

TEST(ChosenHomes, BeatFullRecomputationInItsMemory) {
  for (const char* id : {"korthikanti22_t5/22B_full", "korthikanti22_t5/175B_full"}) {
    const PlannedRun run = planned(id);
    ASSERT_EQ(run.unsupported, "") << id;
    const Cluster cluster = with_memory_of(run);
    const auto chosen = chosen_step(run, cluster);
    ASSERT_TRUE(chosen) << id;
    const Seconds theirs = make_evaluator(run.model, cluster).simulate(run.plan);
    RecordProperty(id, fmt::format("{} {}", chosen->value, theirs.value));
    EXPECT_LT(*chosen, theirs) << id;
  }
}

// What is chosen freely is within this of selective recomputation, which is nearly free; with the
// named families beside it the planner is no slower.
TEST(ChosenHomes, ReachSelectiveRecomputationInItsMemory) {
  constexpr double kNear = 1.04;
  const PlannedRun run = planned("korthikanti22_t5/22B_sel_sp");
  ASSERT_EQ(run.unsupported, "");
  const Cluster cluster = with_memory_of(run);
  const Seconds theirs = make_evaluator(run.model, cluster).simulate(run.plan);
  const auto chosen = chosen_step(run, cluster);
  ASSERT_TRUE(chosen);
  EXPECT_LE(*chosen, theirs * kNear);
  const HomesComparison homes = compare_homes(run.plan, run.model, cluster);
  ASSERT_TRUE(homes.families.back().step);
  EXPECT_LE(*homes.families.back().step, theirs);
}

// [Liao24] In the memory that its own homes take, inputs on the CPU and the rest recomputed.
TEST(ChosenHomes, ReachOrBeatFuyousInItsMemory) {
  for (const char* id : {"fuyou/fy-13b-bs16", "fuyou/fy-13b-bs32", "fuyou/fy-13b-bs64"}) {
    const PlannedRun run = planned(id);
    ASSERT_EQ(run.unsupported, "") << id;
    EXPECT_TRUE(run.plan.overlap.optimizer);
    EXPECT_FALSE(run.plan.loss_scaling);
    const Cluster cluster = with_memory_of(run);
    const Evaluator evaluator = make_evaluator(run.model, cluster);
    Plan plan = run.plan;
    plan.slack = evaluator.fit(plan).slack;
    const Seconds theirs = evaluator.simulate(plan);
    const HomesComparison homes = compare_homes(run.plan, run.model, cluster);
    ASSERT_FALSE(homes.families.empty());
    const HomesFamily& best = homes.families.back();
    ASSERT_TRUE(best.step) << id;
    RecordProperty(id, fmt::format("{} {}", best.step->value, theirs.value));
    EXPECT_LE(*best.step, theirs) << id;
  }
}

// Where the stack says nothing of homes the planner chooses them.
TEST(ChosenHomes, AreFasterThanRecomputingAllOrMovingAll) {
  const StackProfile own = load_stack("own");
  for (const char* id : {"fuyou/fy-13b-bs8", "fuyou/fy-13b-bs32"}) {
    const PlannedRun run = planned(id, &own);
    ASSERT_EQ(run.unsupported, "") << id;
    EXPECT_EQ(run.flags.back(), "homes of activations as the planner chooses them");
    const HomesComparison homes = compare_homes(run.plan, run.model, run.cluster);
    const Seconds chosen = make_evaluator(run.model, run.cluster).simulate(run.plan);
    for (const HomesFamily& family : homes.families) {
      const bool is_one_of_two = family.source == "Chen16" || family.source == "Huang20";
      if (!is_one_of_two || !family.step) continue;
      EXPECT_LT(chosen, *family.step) << id << ' ' << family.name;
    }
  }
}

TEST(ChosenHomes, AreOfRunsThatSayThatTheyChose) {
  RunRecord run;
  EXPECT_FALSE(chooses_homes(run));
  run.recompute_detail = "automatic: each activation is swapped or recomputed";
  words_to_keys(run);
  EXPECT_TRUE(chooses_homes(run));
  run.recompute = "none";
  EXPECT_FALSE(chooses_homes(run));
}

}  // namespace
}  // namespace zplan
