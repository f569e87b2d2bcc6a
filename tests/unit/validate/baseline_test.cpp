#include "planner/validate/baseline.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

constexpr auto kProducts = static_cast<std::size_t>(sim::StepUse::kProducts);
constexpr auto kHost = static_cast<std::size_t>(sim::StepUse::kHost);

BaselineRun then(const std::string& id, double predicted, double measured) {
  BaselineRun run{.id = id, .group = "a", .predicted_s = predicted, .measured_s = measured};
  run.parts[kProducts] = predicted;
  run.fits = true;
  return run;
}

RunResult now(const std::string& id, double predicted, double measured) {
  RunResult run;
  run.id = id;
  run.group = "a";
  run.predicted_s = predicted;
  run.measured_s = measured;
  run.parts[kProducts] = predicted;
  return run;
}

std::vector<RunChange> changes(const BaselineRun& before, const RunResult& after,
                               double most_points = 1) {
  static Baseline baseline;  // what changes point at
  static std::vector<RunResult> runs;
  baseline = {.file = "base.json", .runs = {before}, .malformed = {}};
  runs = {after};
  return changes_since(baseline, runs, most_points);
}

TEST(Baseline, AnErrorMayGrowByThePointsAndNoMore) {
  EXPECT_TRUE(changes(then("a", 102, 100), now("a", 102.9, 100)).empty());
  EXPECT_EQ(changes(then("a", 102, 100), now("a", 103.1, 100)).size(), 1U);
  EXPECT_TRUE(changes(then("a", 102, 100), now("a", 103.1, 100), 1.2).empty());
}

TEST(Baseline, AnErrorOfTheOtherSignCountsByItsSize) {
  EXPECT_TRUE(changes(then("a", 105, 100), now("a", 95, 100)).empty());
  const auto found = changes(then("a", 105, 100), now("a", 93, 100));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, RunChangeKind::kTimeWorse);
  EXPECT_NEAR(found[0].before_pct, 5, 1e-9);
  EXPECT_NEAR(found[0].now_pct, -7, 1e-9);
}

TEST(Baseline, NamesThePartWhoseSecondsChangedMost) {
  BaselineRun before = then("a", 100, 100);
  before.parts[kHost] = 10;
  RunResult after = now("a", 100, 100);
  after.predicted_s = 130;
  after.parts[kProducts] = 105;
  after.parts[kHost] = 1;
  const auto found = changes(before, after);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].moved->use, sim::StepUse::kHost);
  EXPECT_EQ(found[0].moved->before_s, 10);
  EXPECT_EQ(found[0].moved->after_s, 1);
}

TEST(Baseline, NamesNoPartWhereOnlyTheMeasurementIsAnother) {
  const auto found = changes(then("a", 100, 100), now("a", 100, 50));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].moved);
}

TEST(Baseline, AVerdictThatWasRightMustStayRight) {
  RunResult after = now("a", 100, 100);
  after.fits = false;
  ASSERT_EQ(changes(then("a", 100, 100), after).size(), 1U);
  EXPECT_EQ(changes(then("a", 100, 100), after)[0].kind, RunChangeKind::kFitWrong);
  BaselineRun wrong = then("a", 100, 100);
  wrong.fits = false;  // as wrong then
  EXPECT_TRUE(changes(wrong, after).empty());
  after.out_of_memory = wrong.out_of_memory = true;
  EXPECT_TRUE(changes(wrong, after).empty());
}

TEST(Baseline, LostPredictionsFailAndNewOnesDoNot) {
  RunResult lost = now("a", 100, 100);
  lost.unsupported = "experts";
  EXPECT_EQ(changes(then("a", 100, 100), lost)[0].kind, RunChangeKind::kUnsupported);
  BaselineRun never = then("a", 100, 100);
  never.fits.reset();
  EXPECT_EQ(changes(never, now("a", 100, 100))[0].kind, RunChangeKind::kSupported);
  EXPECT_TRUE(changes(never, lost).empty());
  const auto other = changes(then("a", 100, 100), now("b", 100, 100));
  ASSERT_EQ(other.size(), 2U);
  EXPECT_EQ(other[0].kind, RunChangeKind::kGone);
  EXPECT_EQ(other[1].kind, RunChangeKind::kNew);
  EXPECT_TRUE(fails(RunChangeKind::kGone) && fails(RunChangeKind::kUnsupported));
  EXPECT_FALSE(fails(RunChangeKind::kNew) || fails(RunChangeKind::kSupported));
}

std::vector<std::string_view> lost_figures(const BaselineRun& before, const RunResult& after) {
  std::vector<std::string_view> figures;
  for (const RunChange& change : changes(before, after)) {
    EXPECT_EQ(change.kind, RunChangeKind::kLost);
    figures.push_back(change.lost);
  }
  return figures;
}

TEST(Baseline, AFigureThatIsMissingNowFails) {
  using Figures = std::vector<std::string_view>;
  BaselineRun before = then("a", 100, 100);
  before.predicted_gib = before.measured_gib = 10;
  RunResult after = now("a", 100, 100);
  after.predicted_gib = after.measured_gib = 10;
  EXPECT_EQ(lost_figures(before, after), Figures{});
  after.predicted_gib.reset();
  EXPECT_EQ(lost_figures(before, after), Figures{"predicted memory"});
  after.measured_gib.reset();
  EXPECT_EQ(lost_figures(before, after), Figures{"measured memory"});
  after.predicted_s.reset();
  EXPECT_EQ(lost_figures(before, after), (Figures{"predicted step time", "measured memory"}));
  after.measured_s.reset();
  EXPECT_EQ(lost_figures(before, after), (Figures{"measured step time", "measured memory"}));
  EXPECT_EQ(lost_figures(then("a", 100, 100), now("a", 100, 100)), Figures{});
  EXPECT_TRUE(fails(RunChangeKind::kLost));
}

TEST(Baseline, AMalformedLineIsKnownWhereverItStands) {
  const Baseline baseline{.file = "", .runs = {}, .malformed = {"old.jsonl:3:1: /: expected x"}};
  EXPECT_TRUE(newly_malformed(baseline, {"runs.jsonl:9:1: /: expected x"}).empty());
  const auto found =
      newly_malformed(baseline, {"r.jsonl:1:1: /: expected x", "r.jsonl:2:1: /: expected x"});
  EXPECT_EQ(found, std::vector<std::string>{"r.jsonl:2:1: /: expected x"});
}

}  // namespace
}  // namespace zplan
