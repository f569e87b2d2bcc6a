// The cover has what it promises; and a sequence shorter than the model's, which no plan of it has.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <utility>

#include "exec/memory/state_access.h"
#include "tests/support/plan_cover.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::Choice;

TEST(PlanSpace, TheCoverHasAtLeast80Plans) {
  if (testing_support::kSanitized) GTEST_SKIP() << "sanitizers see every level, not every pair";
  EXPECT_GE(testing_support::pairwise_choices().size(), 80U);
}

// Legal plans that differ from the plain one in a few levels drawn at random have no pair that the
// cover has not.
TEST(PlanSpace, TheCoverHasThePairsOfLegalPlansDrawnAtRandom) {
  if (testing_support::kSanitized) GTEST_SKIP() << "sanitizers see every level, not every pair";
  testing_support::OpenPairs open;
  for (const testing_support::Pair& pair : testing_support::all_pairs()) open.open(pair);
  for (const Choice& c : testing_support::pairwise_choices()) open.close(c);
  constexpr int kDraws = 50'000;
  std::mt19937_64 random(7);
  int legal = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Choice c = testing_support::drawn_choice(random);
    if (!testing_support::is_legal(c)) continue;
    ++legal;
    EXPECT_EQ(open.count(c), 0) << testing_support::name_of(c);
  }
  EXPECT_GE(legal, kDraws / 10);
}

// Of which sanitizers run a part, too.
TEST(PlanSpace, ThePlansThatRunHaveEveryLevelOfEveryFactor) {
  std::set<std::pair<std::size_t, int>> seen;
  for (const Choice& c : testing_support::pairwise_choices())
    for (std::size_t f = 0; f < c.size(); ++f) seen.emplace(f, c[f]);
  const std::vector<testing_support::Factor>& factors = testing_support::factors();
  for (std::size_t f = 0; f < factors.size(); ++f)
    for (int level = 0; level < factors[f].levels; ++level)
      EXPECT_TRUE(seen.contains({f, level})) << factors[f].pointer << ", level " << level;
}

// A training sequence below the model's leaves positions without gradients.
TEST(ShortSequence, ShardedTrainingAgreesWithTheReferenceIn64Bit) {
  constexpr double kTolerance = 1e-10;
  Plan plan = testing_support::reference_plan("cpu.f64");
  plan.batch.sequence = 12;
  exec::RunOptions options;
  options.steps = testing_support::steps_of(10);
  const auto expected = testing_support::train(plan, options);
  for (int stage : {0, 1, 2, 3}) {
    plan.zero_stage = stage;
    plan.parallel.dp = 2;
    const auto got = testing_support::train(plan, options);
    const auto worst = exec::largest_difference(got->job, got->result.memory, expected->job,
                                                expected->result.memory);
    if (worst) {
      EXPECT_NEAR(worst->first, worst->second, kTolerance) << worst->tensor;
    }
  }
}

}  // namespace
}  // namespace zplan
