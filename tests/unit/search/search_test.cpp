#include "planner/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>

#include "planner/core/error.h"
#include "planner/plan/choice_text.h"
#include "planner/search/knobs.h"
#include "planner/search/simplicity.h"
#include "planner/search/stack_memory_use.h"
#include "tests/support/pinned.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;
using testing_support::pinned;

constexpr std::int64_t kRoom = 1000;  // bytes

Infeasible over(std::int64_t needed) {
  Infeasible why;
  why.needed = {needed};
  why.available = {kRoom};
  why.tier = Tier::kCpu;
  why.peak_op = "op";
  return why;
}

// Everything takes 10 s and fits into no memory at all, unless a test says otherwise.
struct Model {
  std::function<double(const Plan&)> time = [](const Plan&) { return 10.0; };
  std::function<double(const Plan&)> bound = [](const Plan&) { return 1.0; };
  std::function<std::int64_t(const Plan&)> bytes = [](const Plan&) { return 0; };
  std::function<int(const Plan&, const Plan&)> wins{};

  Evaluator evaluator() const {
    const Model self = *this;
    Evaluator e;
    e.estimate = [self](const Plan& p) { return Estimate{{self.bound(p)}, {}}; };
    e.fit = [self](const Plan& p) {
      Fit fit{.bound = {self.bound(p)},
              .infeasible = {},
              .gpu = {self.bytes(p)},
              .slack = p.slack,
              .prefetch = p.prefetch,
              .gather = p.gather};
      if (self.bytes(p) > kRoom) fit.infeasible = over(self.bytes(p));
      return fit;
    };
    e.simulate = [self](const Plan& p) { return Seconds{self.time(p)}; };
    e.wins = wins;
    return e;
  }
};

class SearchTest : public testing::Test {
 protected:
  SearchResult run(const Model& behaviour, SearchOptions options = {}) {
    return search(model_, cluster_, pins_, behaviour.evaluator(), options);
  }
  const Rejected& line(const SearchResult& result, const Family& family) {
    for (const Rejected& rejected : result.rejected)
      if (rejected.family == family) return rejected;
    throw std::out_of_range(name(family));
  }

  ModelConfig model_ = load_model("tiny");
  Cluster cluster_ = load_cluster("workstation");
  Pins pins_;
};

bool all_gpu(const Plan& plan) { return tiers_used(family_of(plan)) == 1; }

TEST(Family, SaysStageTiersAndPipeline) {
  Plan plan;
  plan.zero_stage = 3;
  EXPECT_EQ(name(family_of(plan)), "ZeRO-3 gpu");
  plan.parallel.pp = 2;
  plan.placement.activations = Tier::kCpu;
  EXPECT_EQ(name(family_of(plan)), "ZeRO-3 gpu+cpu pp");
  EXPECT_EQ(tiers_used(family_of(plan)), 2);
  plan.parallel.tp = 2;
  plan.placement.optimizer = Tier::kNvme;
  EXPECT_EQ(name(family_of(plan)), "ZeRO-3 gpu+cpu+nvme tp pp");
  EXPECT_EQ(tiers_used(family_of(plan)), 3);
  plan.kernel_set = "cpu.bf16";
  plan.precision = *find_recipe("lean", plan.kernel_set);
  EXPECT_EQ(name(family_of(plan)), "ZeRO-3 gpu+cpu+nvme tp pp lean");
  plan.precision.moments = DType::kF32;
  EXPECT_EQ(name(family_of(plan)), "ZeRO-3 gpu+cpu+nvme tp pp custom");
}

TEST_F(SearchTest, TakesTheFastest) {
  Model m;
  m.time = [](const Plan& p) { return p.zero_stage == 2 && p.parallel.pp == 2 ? 5.0 : 10.0; };
  const SearchResult result = run(m);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->plan.zero_stage, 2);
  EXPECT_EQ(result.best->plan.parallel.pp, 2);
  EXPECT_EQ(result.best->step->value, 5.0);
  EXPECT_EQ(result.stats.gap, 0);
  EXPECT_EQ(result.stats.space, result.stats.visited + result.stats.set_aside);
  EXPECT_EQ(result.stats.simulated, result.stats.visited) << "bounds of 1 s prove nothing";
}

TEST_F(SearchTest, SimulatesNothingThatIsProvenSlower) {
  Model m;
  m.bound = m.time = [](const Plan& p) { return p.zero_stage == 1 ? 5.0 : 10.0; };
  const SearchResult result = run(m);
  EXPECT_EQ(result.best->plan.zero_stage, 1);
  EXPECT_LT(result.stats.simulated, result.stats.space / 2);
  EXPECT_EQ(result.stats.gap, 0);
  EXPECT_EQ(line(result, {.zero_stage = 0}).reason,
            "fits, but slower: at least 10.0 s against 5.00 s");
}

// What a plan sends is asked for before it is lowered, and only of plans that could be the fastest.
TEST_F(SearchTest, PlansThatSendTooMuchAreNotLowered) {
  const auto sends_much = [](const Plan& p) { return p.zero_stage > 0; };
  Model m;
  m.time = [=](const Plan& p) { return sends_much(p) ? 30.0 : 10.0; };
  Evaluator evaluator = m.evaluator();
  evaluator.traffic = [=](const Plan& p) { return Seconds{sends_much(p) ? 20.0 : 0.5}; };
  evaluator.fit = [=, fit = evaluator.fit](const Plan& p) {
    EXPECT_FALSE(sends_much(p)) << to_json(p);
    return fit(p);
  };
  const SearchResult result = search(model_, cluster_, pins_, evaluator, {});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->plan.zero_stage, 0);
  EXPECT_EQ(result.stats.gap, 0);
}

TEST_F(SearchTest, PlansThatSendMuchAreLoweredWhereNoOthersFit) {
  const auto sends_much = [](const Plan& p) { return p.zero_stage > 0; };
  Model m;
  m.time = [=](const Plan& p) { return sends_much(p) ? 30.0 : 10.0; };
  m.bytes = [=](const Plan& p) { return sends_much(p) ? kRoom : kRoom + 1; };
  Evaluator evaluator = m.evaluator();
  evaluator.traffic = [=](const Plan& p) { return Seconds{sends_much(p) ? 20.0 : 0.5}; };
  const SearchResult result = search(model_, cluster_, pins_, evaluator, {});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->step->value, 30.0);
}

// A plan stands for those that take its place where it does not fit, which may send less.
TEST_F(SearchTest, WhatAPlanSendsIsTheLeastOfThoseThatTakeItsPlace) {
  const auto is_small = [](const Plan& p) { return !has_rings(p) || p.prefetch == 0; };
  Model m;
  m.time = [=](const Plan& p) { return p.zero_stage == 3 && is_small(p) ? 5.0 : 10.0; };
  m.bytes = [=](const Plan& p) { return is_small(p) ? kRoom : kRoom + 1; };
  Evaluator evaluator = m.evaluator();
  evaluator.traffic = [=](const Plan& p) { return Seconds{is_small(p) ? 2.0 : 20.0}; };
  const SearchResult result = search(model_, cluster_, pins_, evaluator, {});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->step->value, 5.0);
}

TEST_F(SearchTest, RecommendsTheSimplestWithinTwoPercentThenTheOneWithLeastMemory) {
  Model m;
  m.time = [](const Plan& p) { return p.zero_stage == 3 ? 10.0 : 10.15; };
  m.bound = [](const Plan&) { return 9.99; };
  m.bytes = [](const Plan& p) { return p.batch.micro_batch == 2 ? 400 : 500; };
  const SearchResult result = run(m);
  EXPECT_EQ(simplicity_of(result.best->plan), Simplicity{});
  EXPECT_EQ(result.best->plan.batch.micro_batch, 2);
  ASSERT_TRUE(result.fastest);
  EXPECT_EQ(result.fastest->plan.zero_stage, 3);
  EXPECT_EQ(result.fastest->step->value, 10.0);
  EXPECT_TRUE(all_gpu(result.fastest->plan)) << "of plans equally fast the simplest";
  EXPECT_EQ(result.fastest->plan.batch.micro_batch, 2) << "then the one with least memory";
  EXPECT_FALSE(result.wins);
  EXPECT_EQ(line(result, {.zero_stage = 0, .cpu = true}).standing, Standing::kSetAside);
  EXPECT_EQ(line(result, {.zero_stage = 3}).reason,
            "fits, 10.0 s against 10.2 s, but less simple: ZeRO stage");
}

TEST_F(SearchTest, BeyondTwoPercentTimeDecides) {
  Model m;
  m.time = [](const Plan& p) { return all_gpu(p) ? 10.3 : 10.0; };
  const SearchResult result = run(m);
  EXPECT_FALSE(all_gpu(result.best->plan));
  EXPECT_FALSE(result.fastest);
  EXPECT_EQ(line(result, {.zero_stage = 0}).reason, "fits, but slower: 10.3 s against 10.0 s");
}

// ZeRO 0 and 1 are both near enough; what is known of the constants tells ZeRO 0 from ZeRO 3.
TEST_F(SearchTest, APlanToldApartFromTheFastestIsNotRecommended) {
  Model m;
  int of_zero_0 = kToldApart;
  m.time = [](const Plan& p) { return p.zero_stage == 3 ? 10.0 : p.zero_stage == 2 ? 10.5 : 10.1; };
  m.wins = [&](const Plan& fastest, const Plan& other) {
    EXPECT_LE(m.time(fastest), m.time(other));
    EXPECT_LE(m.time(other), m.time(fastest) * (1 + kTieTolerance));
    EXPECT_FALSE(fastest == other);
    return other.zero_stage == 0 ? of_zero_0 : 60;
  };
  const SearchResult result = run(m);
  EXPECT_EQ(result.best->plan.zero_stage, 1);
  EXPECT_EQ(result.wins, 60);
  EXPECT_EQ(line(result, {.zero_stage = 0}).reason,
            "fits, 10.1 s against 10.1 s, slower than the fastest in 90 of 100 samples");
  --of_zero_0;
  EXPECT_EQ(run(m).best->plan.zero_stage, 0);
  EXPECT_EQ(run(m).wins, 89);
}

// A plan that keeps more on the GPU may be 9 % slower, unless samples tell the plans apart.
TEST_F(SearchTest, TheGpuAloneIsRecommendedWithinTheErrorOfAPrediction) {
  Model m;
  double on_gpu = 10.8;
  int wins = kToldApart - 1;
  pins_.set("/zero_stage", 1);
  m.time = [&](const Plan& p) { return all_gpu(p) ? on_gpu : p.parallel.tp > 1 ? 10.5 : 10.0; };
  m.wins = [&](const Plan&, const Plan&) { return wins; };
  const SearchResult near = run(m);
  EXPECT_TRUE(all_gpu(near.best->plan));
  EXPECT_EQ(near.wins, wins);
  EXPECT_FALSE(all_gpu(near.fastest->plan));
  for (const Rejected& other : near.rejected) {
    if (tiers_used(other.family) == 1) continue;
    EXPECT_NE(other.standing, Standing::kRejected) << other.reason << ", but faster";
  }
  wins = kToldApart;
  EXPECT_FALSE(all_gpu(run(m).best->plan));
  wins = 0;
  on_gpu = 10.91;
  EXPECT_FALSE(all_gpu(run(m).best->plan));
}

// By their bounds the plans of ZeRO 3 come first, and there are more than are simulated.
TEST_F(SearchTest, LooksForPlainerVersionsOfTheFastest) {
  Model m;
  m.bound = [](const Plan& p) { return p.zero_stage == 3 ? 5.0 : 10.0; };
  m.time = [](const Plan& p) {
    const bool same = p.parallel.dp == 4 && p.batch.micro_batch == 1;
    return p.zero_stage == 3 ? (same ? 10.0 : 10.5) : same ? 10.1 : 10.6;
  };
  const SearchResult result = run(m, {.max_simulated = 24});
  EXPECT_EQ(simplicity_of(result.best->plan), Simplicity{});
  EXPECT_EQ(result.best->plan.parallel.dp, 4);
  EXPECT_EQ(result.fastest->plan.zero_stage, 3);
  EXPECT_DOUBLE_EQ(result.stats.gap, 0.5) << "of the fastest";
  EXPECT_LE(result.stats.simulated, 24);
}

TEST_F(SearchTest, TakesHomesFartherAwayOnlyForMoreThanTwoPercent) {
  Model m;
  double gain = 0.015;
  pins_.set("/zero_stage", 3);
  m.time = [&](const Plan& p) {
    return p.placement.optimizer == Tier::kCpu ? 10 - 10 * gain : 10.0;
  };
  SearchResult result = run(m);
  EXPECT_TRUE(all_gpu(result.best->plan));
  EXPECT_EQ(result.fastest->plan.placement.optimizer, Tier::kCpu);
  gain = 0.03;
  result = run(m);
  EXPECT_EQ(result.best->plan.placement.optimizer, Tier::kCpu);
  EXPECT_FALSE(result.fastest);
}

TEST_F(SearchTest, AKnobMustGainMoreThanTwoPercent) {
  Model m;
  double gain = 0.015;
  pins_.set("/parallel/pp", 2);
  pins_.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull}});
  m.time = [&](const Plan& p) { return p.stage_layers.empty() ? 10.0 : 10 - 10 * gain; };
  const SearchResult result = run(m);
  EXPECT_TRUE(result.best->plan.stage_layers.empty());
  EXPECT_FALSE(result.fastest->plan.stage_layers.empty());
  gain = 0.03;
  EXPECT_FALSE(run(m).best->plan.stage_layers.empty());
}

TEST_F(SearchTest, RejectsAFamilyByItsClosestPlan) {
  Model m;
  m.bytes = [](const Plan& p) {
    return p.zero_stage == 3 ? 10 : 3000 + 100 * p.zero_stage + 7 * p.batch.micro_batch;
  };
  const SearchResult result = run(m);
  const Rejected& rejected = line(result, {.zero_stage = 2, .cpu = true});
  ASSERT_TRUE(rejected.best.infeasible);
  EXPECT_EQ(rejected.best.infeasible->needed.value, 3207);
  EXPECT_EQ(rejected.reason, "cpu memory: 3.13 KiB needed, 1000 B there");
}

// Some are too large, the others too slow to be looked at with states farther away.
TEST_F(SearchTest, AFamilyThatMayFitIsNotSaidToBeTooLarge) {
  Model m;
  const auto slow = [](const Plan& p) { return p.zero_stage == 0 && p.batch.micro_batch > 1; };
  m.bound = [=](const Plan& p) { return slow(p) ? 50.0 : 1.0; };
  m.time = [=](const Plan& p) { return slow(p) ? 60.0 : 10.0; };
  m.bytes = [=](const Plan& p) { return p.zero_stage > 0 || slow(p) ? 0 : 2 * kRoom; };
  const SearchResult result = run(m);
  EXPECT_EQ(line(result, {.zero_stage = 0, .cpu = true}).reason,
            "slower if it fits: at least 50.0 s against 10.0 s");
}

// Bounds of 1 s prove nothing of the plans for whose simulation the budget did not reach.
TEST_F(SearchTest, AFamilyThatWasNotTriedIsNotSaidToBeRejected) {
  Model m;
  m.bound = [](const Plan& p) { return p.zero_stage == 1 ? 20.0 : 1.0; };
  m.time = [](const Plan& p) { return p.zero_stage == 1 ? 20.0 : 10.0; };
  const SearchResult result = run(m, {.max_simulated = 1});
  int not_tried = 0;
  for (const Rejected& one : result.rejected) {
    if (one.family.zero_stage == 1) {
      EXPECT_NE(one.standing, Standing::kNotTried) << name(one.family);
      EXPECT_FALSE(one.from);
    } else if (one.standing == Standing::kNotTried && !one.best.step) {
      ++not_tried;
      EXPECT_EQ(one.from, Seconds{1.0});
      EXPECT_EQ(one.reason, "not tried: could take from 1.00 s on, against 10.0 s");
    }
  }
  EXPECT_GT(not_tried, 0);
  EXPECT_EQ(line(result, {.zero_stage = 1}).standing, Standing::kRejected);
  ASSERT_TRUE(result.open);
  EXPECT_EQ(result.open->bound.value, 1.0);
  EXPECT_DOUBLE_EQ(result.stats.gap, 0.9);
  for (const Rejected& one : run(m).rejected) EXPECT_NE(one.standing, Standing::kNotTried);
}

// Some of a family were simulated and are slower; the others could still be faster.
TEST_F(SearchTest, AFamilyTriedInPartSaysWhatTheRestCouldTake) {
  Model m;
  pins_.set("/zero_stage", 0);
  m.bound = [](const Plan& p) { return p.parallel.pp == 1 ? 1.0 : 2.0; };
  m.time = [](const Plan& p) { return p.parallel.pp == 1 ? 10.0 : 20.0; };
  bool found = false;
  for (const std::int64_t most : {4, 8, 12, 16, 20, 24}) {
    for (const Rejected& one : run(m, {.max_simulated = most}).rejected) {
      if (one.standing != Standing::kNotTried || !one.best.step) continue;
      found = true;
      EXPECT_GE(one.best.step->value, 10.0);
      EXPECT_THAT(one.reason, ::testing::StartsWith("tried in part: "));
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(SearchTest, ATieIsBrokenTowardsTheSimplerPlanAndSaysSo) {
  Model m;
  m.time = [](const Plan& p) { return p.zero_stage == 3 ? 10.0 : 10.15; };
  m.bound = [](const Plan&) { return 9.99; };
  const SearchResult result = run(m);
  EXPECT_EQ(line(result, {.zero_stage = 3}).standing, Standing::kTied);
  EXPECT_THAT(line(result, {.zero_stage = 3}).reason, HasSubstr("less simple: ZeRO stage"));
}

TEST_F(SearchTest, WhenNothingFitsNamesTheClosestPlan) {
  Model m;
  m.bytes = [](const Plan& p) { return p.zero_stage == 1 ? 1500 : 2000; };
  const SearchResult result = run(m);
  EXPECT_FALSE(result.best);
  ASSERT_TRUE(result.closest);
  EXPECT_EQ(result.closest->plan.zero_stage, 1);
  EXPECT_EQ(result.stats.simulated, 0);
  std::set<Family> families;
  for (const Plan& plan : enumerate(model_, cluster_, pins_)) families.insert(family_of(plan));
  EXPECT_EQ(result.rejected.size(), families.size());
}

TEST_F(SearchTest, NamesTheSmallestChangeWherePinsLeaveNothingThatFits) {
  Model m;
  m.bytes = [](const Plan& p) { return p.zero_stage == 3 ? 10 : 2 * kRoom; };
  pins_.set("/zero_stage", 1);
  const SearchResult result = run(m);
  ASSERT_TRUE(result.closest);
  EXPECT_EQ(result.closest->infeasible->smallest_change, "ZeRO stage 3");
}

// Where the recipe is free: the fastest wins whatever its recipe, and the others stay families of
// their own with the same homes set aside.
TEST_F(SearchTest, KeepsRecipesApart) {
  pins_.set("/kernel_set", "cpu.bf16");
  pins_.recipes = {"standard", "lean"};
  const auto is_lean = [](const Plan& p) { return !p.precision.separate_master; };
  Model m;
  m.time = [&](const Plan& p) { return is_lean(p) && p.zero_stage == 0 ? 5.0 : 10.0; };
  m.bytes = [&](const Plan& p) { return is_lean(p) || !all_gpu(p) ? 0 : 2 * kRoom; };
  const SearchResult result = run(m);
  ASSERT_TRUE(result.best);
  EXPECT_TRUE(is_lean(result.best->plan));
  EXPECT_TRUE(line(result, {.zero_stage = 0}).best.infeasible);
  EXPECT_NE(line(result, {.zero_stage = 0, .cpu = true}).standing, Standing::kSetAside);
  EXPECT_EQ(line(result, {.zero_stage = 1, .cpu = true, .recipe = 3}).standing,
            Standing::kSetAside);
  for (const Rejected& rejected : result.rejected)
    EXPECT_EQ(family_of(rejected.best.plan), rejected.family);
}

// A plan that fits with its states on the GPU is not tried with them elsewhere, but for the winner.
TEST_F(SearchTest, SetsFartherHomesAside) {
  Model m;
  m.bytes = [](const Plan& p) { return all_gpu(p) ? 2 * kRoom : 0; };
  const SearchResult result = run(m);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(tiers_used(family_of(result.best->plan)), 2);
  EXPECT_FALSE(family_of(result.best->plan).nvme);
  EXPECT_GT(result.stats.set_aside, result.stats.space / 4);
  EXPECT_EQ(line(result, {.zero_stage = 0, .cpu = true, .nvme = true}).standing,
            Standing::kSetAside);
}

TEST_F(SearchTest, WhatTheGpuLacksNoOtherTierGives) {
  Model m;
  std::atomic<int> fitted = 0;
  Evaluator evaluator = m.evaluator();
  evaluator.fit = [&](const Plan&) {
    ++fitted;
    Fit fit;
    fit.infeasible = over(2 * kRoom);
    fit.infeasible->tier = Tier::kGpu;
    return fit;
  };
  pins_.tunes_units = false;
  pins_.set("/gather/prefetch", 1);
  pins_.set("/parallel/tp", 1);
  pins_.set("/parallel/pp", 1);
  pins_.set("/batch/micro_batch", 1);
  pins_.set("/zero_stage", 0);
  pins_.set("/recompute", std::vector<RecomputeRun>{{Recompute::kNone}});
  const SearchResult result = search(model_, cluster_, pins_, evaluator, {});
  EXPECT_FALSE(result.best);
  EXPECT_EQ(result.stats.space, 3);    // homes of the optimizer states
  EXPECT_EQ(result.stats.visited, 2);  // on the GPU, and off it
}

TEST_F(SearchTest, TriesTheKnobsOnTheWinner) {
  Model m;
  m.bound = [](const Plan& p) { return p.all_full() || p.recompute.size() > 1 ? 1.0 : 50.0; };
  m.time = [](const Plan& p) {
    if (!p.all_full()) return p.recompute.size() > 1 ? 9.0 : 60.0;
    return p.stage_layers.empty() ? 10.0 : 9.5;
  };
  EXPECT_EQ(run(m).best->plan.recompute.size(), 2U);
  pins_.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull}});
  pins_.set("/parallel/pp", 2);
  EXPECT_EQ(run(m).best->plan.stage_layers, (std::vector<std::int32_t>{3, 1}));
}

TEST_F(SearchTest, TriesShardingGroupsOfAnIslandOnTheWinner) {
  cluster_ = load_cluster("dgx2x2");
  pins_ = pinned({{"/parallel/tp", "4"}, {"/parallel/pp", "1"}, {"/zero_stage", "3"}});
  const std::int32_t group = cluster_.island() / 4;
  Model m;
  m.time = [=](const Plan& p) { return p.shards() == group ? 9.0 : 10.0; };
  const SearchResult result = run(m);
  EXPECT_GT(result.best->plan.parallel.dp, group);
  EXPECT_EQ(result.best->plan.shards(), group);
  pins_.set("/parallel/shards", result.best->plan.parallel.dp);
  EXPECT_EQ(run(m).best->plan.shards(), result.best->plan.parallel.dp);
}

TEST_F(SearchTest, TriesToSpreadRanksThatLeaveDevicesIdle) {
  cluster_ = load_cluster("dgx2");
  pins_ = pinned({{"/parallel/dp", "4"}, {"/parallel/tp", "1"}, {"/parallel/pp", "1"}});
  const std::vector<std::int32_t> spread{0, 4, 8, 12};
  Model m;
  m.time = [=](const Plan& p) { return p.gpus == spread ? 9.0 : 10.0; };
  EXPECT_EQ(run(m).best->plan.gpus, spread);
  pins_.set("/parallel/gpus", std::vector<std::int32_t>{0, 1, 2, 3});
  EXPECT_EQ(run(m).best->plan.gpus, (std::vector<std::int32_t>{0, 1, 2, 3}));
}

TEST_F(SearchTest, CountsTheDevicesThatRanksMayHave) {
  cluster_ = load_cluster("dgx2x2");
  pins_.set("/parallel/gpus", std::vector<std::int32_t>{0, 8});
  EXPECT_EQ(run(Model{}).best->plan.parallel.ranks(), 4);
}

TEST_F(SearchTest, TriesUnitsOfSeveralLayersOnTheWinner) {
  pins_ = pinned({{"/zero_stage", "3"}, {"/gather/unit", "layer"}, {"/parallel/pp", "1"}});
  for (const std::int32_t layers : {2, 4}) {
    Model m;
    m.time = [=](const Plan& p) { return p.unit_layers() == layers ? 9.0 : 10.0; };
    EXPECT_EQ(run(m).best->plan.unit_layers(), layers);
  }
  Model m;
  m.time = [](const Plan& p) { return 10.0 - p.unit_layers(); };
  pin_choice(pins_, "/gather/unit", "layers:1");
  EXPECT_EQ(run(m).best->plan.unit_layers(), 1) << "a pinned count is not touched";
}

TEST_F(SearchTest, TunesThePrefetchDepthOfTheWinnerOnly) {
  Model m;
  m.time = [](const Plan& p) { return (p.zero_stage == 3 ? 5.0 : 10.0) - 0.2 * p.prefetch; };
  m.bytes = [](const Plan& p) { return p.prefetch > 2 ? 2 * kRoom : 0; };
  EXPECT_EQ(run(m).best->plan.prefetch, 2);
  m.time = [](const Plan& p) { return p.zero_stage == 3 ? 5.0 : 10.0; };
  EXPECT_EQ(run(m).best->plan.prefetch, 1) << "not faster, not changed";
  pins_.set("/gather/prefetch", 0);
  EXPECT_EQ(run(m).best->plan.prefetch, 0);
}

// What needs rings of gather units fits in a shallow one only.
TEST_F(SearchTest, DoesWithoutPrefetchWhereNothingElseFits) {
  Model m;
  m.bytes = [](const Plan& p) { return p.zero_stage < 2 || p.prefetch > 0 ? 2 * kRoom : kRoom; };
  const SearchResult result = run(m);
  ASSERT_TRUE(result.best);
  EXPECT_GE(result.best->plan.zero_stage, 2);
  EXPECT_EQ(result.best->plan.prefetch, 0);
  EXPECT_EQ(result.stats.gap, 0);
  pins_.set("/gather/prefetch", 1);
  EXPECT_FALSE(run(m).best) << "a pinned depth is not touched";
}

TEST_F(SearchTest, ABoundAboveTheTimeIsABug) {
  Model m;
  m.bound = [](const Plan&) { return 10.1; };
  EXPECT_THROW(run(m), Error);
}

TEST_F(SearchTest, AnEarlyStopAdmitsWhatItMayHaveLost) {
  Model m;
  m.bound = [](const Plan& p) { return p.zero_stage == 3 ? 4.0 : 8.0; };
  const SearchResult result = run(m, {.max_simulated = 1});
  EXPECT_DOUBLE_EQ(result.stats.gap, 0.6);
  EXPECT_LE(result.stats.simulated, 8);
  EXPECT_EQ(line(result, {.zero_stage = 0}).reason,
            "not tried: could take from 8.00 s on, against 10.0 s");
}

// Each simulation is of 100 operations here.
TEST_F(SearchTest, GoesOnUntilItHasSimulatedSoManyOperations) {
  const auto simulated = [&](std::int64_t operations) {
    Evaluator evaluator = Model{}.evaluator();
    const auto count = std::make_shared<std::atomic<std::int64_t>>(0);
    evaluator.simulate = [count, simulate = evaluator.simulate](const Plan& p) {
      *count += 100;
      return simulate(p);
    };
    evaluator.operations = [count] { return count->load(); };
    const SearchOptions options{.max_simulated = 1, .min_operations = operations};
    return search(model_, cluster_, pins_, evaluator, options).stats.simulated;
  };
  EXPECT_LE(simulated(0), 8);
  EXPECT_GE(simulated(6'000), 50);
  EXPECT_LE(simulated(6'000), 70);
}

// Of one plan the exact bound is as low as its estimate; it is simulated, the others are not. Most
// of these have never been lowered: of them nothing but the estimate is known.
TEST_F(SearchTest, TheGapHoldsForPlansThatWereOnlyEstimated) {
  const Plan first = enumerate(model_, cluster_, pins_).front();
  const auto is_first = [&](const Plan& p) { return p == first; };
  Evaluator evaluator =
      Model{.bound = [=](const Plan& p) { return is_first(p) ? 4.0 : 9.0; }}.evaluator();
  evaluator.estimate = [=](const Plan& p) { return Estimate{{is_first(p) ? 4.0 : 5.0}, {}}; };
  const SearchResult result = search(model_, cluster_, pins_, evaluator, {.max_simulated = 1});
  EXPECT_LT(result.stats.visited, result.stats.space - result.stats.set_aside);
  EXPECT_DOUBLE_EQ(result.stats.gap, 0.5);
}

TEST_F(SearchTest, ReportsProgress) {
  std::int64_t calls = 0;
  SearchOptions options;
  options.progress = [&](const SearchStats& stats) {
    EXPECT_GE(stats.visited, stats.simulated);
    ++calls;
  };
  run({}, options);
  EXPECT_GT(calls, 2);
}

TEST_F(SearchTest, PassesErrorsOn) {
  Evaluator evaluator = Model{}.evaluator();
  evaluator.simulate = [](const Plan&) -> Seconds { throw std::runtime_error("no link"); };
  EXPECT_THROW(search(model_, cluster_, pins_, evaluator, {.threads = 3}), std::runtime_error);
}

TEST(MakeEvaluator, FindsThePlanThatFitsWithoutPrefetchOnly) {
  const ModelConfig model = load_model("175B");
  Cluster cluster = load_cluster("dgx2");
  cluster.node.device.memory = {6'000'000'000};
  cluster.node.host.memory = {std::int64_t{8000} << 30};
  Pins pins = pinned({{"/kernel_set", "cuda.sm70.fp16"},
                      {"/batch/global_batch", "16"},
                      {"/batch/micro_batch", "1"},
                      {"/parallel/tp", "1"},
                      {"/parallel/pp", "1"}});
  pins.tunes_units = false;
  const Evaluator evaluator = make_evaluator(model, cluster);
  const SearchResult result = search(model, cluster, pins, evaluator, {.threads = 2});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->plan.prefetch, 0);
  EXPECT_FALSE(evaluator.fit(result.best->plan).infeasible);
  EXPECT_LE(result.best->bound, *result.best->step);
  pins.set("/gather/prefetch", 1);
  EXPECT_FALSE(search(model, cluster, pins, evaluator, {.threads = 2}).best);
}

TEST(MakeEvaluator, TriesTheTightestPlacementBeforeItGivesUp) {
  const ModelConfig model = load_model("tiny");
  Cluster cluster = load_cluster("workstation");
  int looser = 0;
  Pins pins =
      pinned({{"/parallel/tp", "1"}, {"/batch/micro_batch", "1"}, {"/placement/optimizer", "gpu"}});
  for (Plan plan : enumerate(model, cluster, pins)) {
    const Bytes loose = make_evaluator(model, cluster).fit(plan).gpu;
    plan.slack = 0;
    const Bytes tight = make_evaluator(model, cluster).fit(plan).gpu;
    plan.slack = Plan{}.slack;
    if (tight == loose) continue;
    ++looser;
    Cluster small = cluster;
    small.node.device.memory =
        tight + cluster.node.device.reserve() + reserve_margin(cluster.node.device);
    const Fit fit = make_evaluator(model, small).fit(plan);
    EXPECT_FALSE(fit.infeasible);
    EXPECT_EQ(fit.slack, 0);
    EXPECT_EQ(fit.gpu, tight);
    small.node.device.memory -= Bytes{1};
    EXPECT_TRUE(make_evaluator(model, small).fit(plan).infeasible);
  }
  EXPECT_GT(looser, 0);
}

}  // namespace
}  // namespace zplan
