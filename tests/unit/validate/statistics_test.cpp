#include "planner/validate/statistics.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

RunResult timed(const std::string& id, double predicted, double measured,
                const std::string& group = "a", const std::string& sweep = "s") {
  RunResult run;
  run.id = id;
  run.group = group;
  run.sweep = sweep;
  run.predicted_s = predicted;
  run.measured_s = measured;
  return run;
}

TEST(Statistics, ErrorsOfStepTime) {
  // -10 %, +20 %, -30 %, 0 %: absolute 0, 10, 20, 30.
  const std::vector<RunResult> runs = {timed("a", 0.9, 1, "a", "1"), timed("b", 2.4, 2, "a", "2"),
                                       timed("c", 0.7, 1, "a", "3"), timed("d", 5, 5, "a", "4")};
  const TimeStatistics time = statistics(runs).all.time;
  EXPECT_EQ(time.n, 4);
  EXPECT_NEAR(time.mape_pct, 15, 1e-9);
  EXPECT_NEAR(time.median_ape_pct, 15, 1e-9);
  EXPECT_NEAR(time.p90_ape_pct, 30, 1e-9);
  EXPECT_NEAR(time.bias_pct, -5, 1e-9);
  EXPECT_EQ(time.pairs, 0);
  EXPECT_EQ(time.sweeps, 0);
}

TEST(Statistics, ThePercentileIsTheLeastThatNinetyPerCentDoNotExceed) {
  std::vector<RunResult> runs;
  for (int i = 1; i <= 20; ++i) runs.push_back(timed(std::to_string(i), 100 + i, 100));
  EXPECT_NEAR(statistics(runs).all.time.p90_ape_pct, 18, 1e-9);
  EXPECT_NEAR(statistics(runs).all.time.median_ape_pct, 10.5, 1e-9);
}

TEST(Statistics, PairsOfASweepInTheirMeasuredOrder) {
  // Measured 1.0, 1.05, 1.2, 2.0: the first two are within 10 %, as no others are. Of the five
  // pairs 1.05 before 1.2 is predicted the wrong way round.
  const std::vector<RunResult> runs = {timed("a", 1.0, 1.0), timed("b", 1.5, 1.05),
                                       timed("c", 1.4, 1.2), timed("d", 1.9, 2.0),
                                       timed("e", 9, 100, "a", "other")};
  const TimeStatistics time = statistics(runs).all.time;
  EXPECT_EQ(time.pairs, 5);
  EXPECT_NEAR(time.pairs_right_pct, 80, 1e-9);
  EXPECT_EQ(time.sweeps, 1);
  EXPECT_NEAR(time.sweeps_best_within_pct, 100, 1e-9);
  EXPECT_EQ(time.worst_best_ratio, 1);
}

TEST(Statistics, ThePlanPredictedBestAgainstTheBest) {
  const std::vector<RunResult> runs = {timed("a", 2, 1.0), timed("b", 1, 1.25)};
  const TimeStatistics time = statistics(runs).all.time;
  EXPECT_EQ(time.pairs, 1);
  EXPECT_EQ(time.pairs_right_pct, 0);
  EXPECT_EQ(time.sweeps_best_within_pct, 0);
  EXPECT_NEAR(time.worst_best_ratio, 1.25, 1e-12);
}

TEST(Statistics, GroupsCountAlikeInTheirMean) {
  const std::vector<RunResult> runs = {timed("a", 1.1, 1, "a", "1"), timed("b", 1.1, 1, "a", "2"),
                                       timed("c", 1.4, 1, "b", "3")};
  const ValidationStatistics all = statistics(runs);
  EXPECT_NEAR(all.groups.at("a").time.mape_pct, 10, 1e-9);
  EXPECT_NEAR(all.groups.at("b").time.mape_pct, 40, 1e-9);
  EXPECT_NEAR(all.mean_group_mape_pct, 25, 1e-9);
  EXPECT_NEAR(all.all.time.mape_pct, 20, 1e-9);
}

TEST(Statistics, MemoryAndWhatFits) {
  std::vector<RunResult> runs(5);
  runs[0].predicted_gib = 11;
  runs[0].measured_gib = 10;
  runs[1].predicted_gib = 6;
  runs[1].measured_gib = 10;
  runs[0].bound_gib = 12;
  runs[1].bound_gib = 7;
  runs[2].out_of_memory = true;  // predicted to fit
  runs[3].measured_s = 1;        // ran, predicted not to fit
  runs[3].fits = false;
  runs[4].out_of_memory = true;
  runs[4].unsupported = "experts";
  const MemoryStatistics memory = statistics(runs).all.memory;
  EXPECT_EQ(memory.n, 2);
  EXPECT_NEAR(memory.mape_pct, 25, 1e-9);
  EXPECT_NEAR(memory.median_ape_pct, 25, 1e-9);
  EXPECT_NEAR(memory.bias_pct, -15, 1e-9);
  EXPECT_EQ(memory.bounded_pct, 50) << "one is above its bound";
  EXPECT_EQ(memory.false_fits, 1);
  EXPECT_EQ(memory.false_ooms, 1);
}

TEST(Statistics, TheWorstComeFirst) {
  const std::vector<RunResult> runs = {timed("a", 1.1, 1), timed("b", 0.5, 1), timed("c", 1.2, 1)};
  const auto worst = worst_runs(runs, 2);
  ASSERT_EQ(worst.size(), 2);
  EXPECT_EQ(worst[0]->id, "b");
  EXPECT_EQ(worst[1]->id, "c");
}

TEST(Statistics, NothingIsNoDivisionByZero) {
  const ValidationStatistics none = statistics(std::vector<RunResult>{});
  EXPECT_EQ(none.all.time.mape_pct, 0);
  EXPECT_EQ(none.mean_group_mape_pct, 0);
}

}  // namespace
}  // namespace zplan
