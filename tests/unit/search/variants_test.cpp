#include "planner/search/variants.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "planner/search/job_bound.h"
#include "planner/search/knobs.h"
#include "planner/search/outside_space.h"
#include "planner/search/search.h"
#include "tests/support/pinned.h"

namespace zplan {
namespace {

using testing_support::pinned;

// All variants of all leaves, one by one.
std::int64_t counted(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  const Variants variants(model, cluster, pins);
  std::int64_t count = 0;
  for (const Plan& leaf : enumerate(model, cluster, pins))
    for (const Plan& plan : variants.of(leaf))
      count += static_cast<std::int64_t>(variants.depths(plan).size());
  return count;
}

// Everything takes 10 s and fits.
Evaluator flat() {
  Evaluator e;
  e.estimate = [](const Plan&) { return Estimate{{1.0}, {}}; };
  e.fit = [](const Plan& p) { return Fit{{1.0}, {}, {1}, p.slack, p.prefetch, p.gather}; };
  e.simulate = [](const Plan&) { return Seconds{10.0}; };
  return e;
}

TEST(Variants, OfALeafAreDistinctAndLegal) {
  const ModelConfig model = load_model("10B");
  const Cluster cluster = load_cluster("dgx2x4");
  const Pins pins =
      pinned({{"/batch/micro_batch", "1"}, {"/parallel/tp", "2"}, {"/parallel/pp", "2"}});
  const Variants variants(model, cluster, pins);
  std::size_t most = 0;
  for (const Plan& leaf : enumerate(model, cluster, pins)) {
    const std::vector<Plan> plans = variants.of(leaf);
    ASSERT_EQ(plans.front(), leaf);
    std::set<std::string> known;
    for (const Plan& plan : plans)
      for (const Plan& deep : variants.depths(plan)) {
        EXPECT_FALSE(illegal(deep, shape_of(model)));
        EXPECT_TRUE(known.insert(to_json(deep)).second);
      }
    most = std::max(most, known.size());
  }
  EXPECT_EQ(most, 5U * 5 * 2 * 2);  // tiles 1 .. 16, depths 0 .. 4, shards, order
}

TEST(Variants, PinsLeaveOne) {
  const ModelConfig model = load_model("10B");
  const Cluster cluster = load_cluster("dgx2x2");
  Pins pins = pinned({{"/gather/prefetch", "2"},
                      {"/parallel/shards", "16"},
                      {"/parallel/tp", "1"},
                      {"/parallel/order", "data_first"}});
  pins.tunes_units = false;
  const Variants variants(model, cluster, pins);
  for (const Plan& leaf : enumerate(model, cluster, pins)) {
    EXPECT_EQ(variants.of(leaf).size(), 1U);
    EXPECT_EQ(variants.depths(leaf), std::vector<Plan>{leaf});
  }
}

TEST(Variants, AreCountedAsTheSpace) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  for (const Pins& pins :
       {pinned({{"/batch/micro_batch", "1"}}), pinned({{"/parallel/tp", "2"}}),
        pinned({{"/zero_stage", "3"}}), pinned({{"/zero_stage", "1"}, {"/parallel/pp", "2"}})}) {
    const SearchResult result =
        search(model, cluster, pins, flat(), {.variants = true, .max_simulated = 1});
    EXPECT_EQ(result.stats.space, counted(model, cluster, pins));
  }
}

std::vector<std::string> outside(const Plan& plan, const Pins& pins) {
  std::vector<std::string> pointers;
  for (const OutsideSpace& one : outside_space(plan, pins)) pointers.emplace_back(one.pointer);
  return pointers;
}

// All that a search simulates, tuned or not, is said to be outside where no variant of a leaf is
// it.
TEST(OutsideSpace, IsWhatIsNoVariantOfALeaf) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  for (const Pins& pins : {pinned({{"/parallel/pp", "2"}, {"/batch/micro_batch", "1"}}),
                           pinned({{"/zero_stage", "3"}, {"/placement/optimizer", "nvme"}}),
                           pinned({{"/parallel/dp", "1"}, {"/checkpoint_layers", "2"}})}) {
    const Variants variants(model, cluster, pins);
    std::set<std::string> space;
    const auto known = [](Plan plan) {
      plan.slack = 0;
      return to_json(plan);
    };
    for (const Plan& leaf : enumerate(model, cluster, pins))
      for (const Plan& plan : variants.of(leaf))
        for (const Plan& deep : variants.depths(plan)) space.insert(known(deep));
    std::size_t tuned = 0;
    Evaluator evaluator = make_evaluator(model, cluster);
    // What is not of the space is fast, so that knob upon knob is turned.
    evaluator.simulate = [&](const Plan& p) {
      return Seconds{10.0 / (1 + 3 * outside(p, pins).size())};
    };
    evaluator.simulate_exactly = evaluator.simulate;
    evaluator.estimate = [ask = evaluator.estimate](const Plan& p) {
      return Estimate{{1e-3}, ask(p).infeasible};
    };
    evaluator.fit = [ask = evaluator.fit](const Plan& p) {
      Fit fit = ask(p);
      fit.bound = {1e-3};
      return fit;
    };
    evaluator.bound = evaluator.bound_of_depths = evaluator.shared_work = nullptr;
    const SearchResult found = search(model, cluster, pins, evaluator, {});
    for (const Simulated& one : found.simulated) {
      EXPECT_EQ(outside(one.plan, pins).empty(), space.contains(known(one.plan)))
          << to_json(one.plan) << words_of(outside_space(one.plan, pins));
      tuned += space.contains(known(one.plan)) ? 0 : 1;
    }
    EXPECT_GT(tuned, 0U);
  }
}

TEST(OutsideSpace, NamesWhatIsTurnedAndNotWhatIsPinned) {
  Plan plan;
  EXPECT_TRUE(outside_space(plan, {}).empty());
  plan.parallel.shards = 2;
  plan.order = RankOrder::kPipelineFirst;
  plan.prefetch = 3;
  plan.recompute = {{Recompute::kFull}};
  EXPECT_TRUE(outside_space(plan, {}).empty());
  plan.stage_layers = {3, 2};
  plan.checkpoint_layers = 2;
  EXPECT_EQ(words_of(outside_space(plan, {})), "uneven stages, layers per checkpoint");
  EXPECT_EQ(words_of(outside_space(plan, pinned({{"/checkpoint_layers", "2"}}))), "uneven stages");
  EXPECT_EQ(words_of(outside_space(plan, pinned({{"/checkpoint_layers", "4"}}))),
            "uneven stages, layers per checkpoint");
  plan = {};
  plan.placement.optimizer_near = 0.5;
  plan.overlap.optimizer = true;
  plan.recompute = {{Recompute::kFull, 1}, {Recompute::kNone}};
  EXPECT_EQ(words_of(outside_space(plan, {})),
            "nearer optimizer states of some layers, updates beside backward, "
            "recompute that differs by layer");
  plan = {};
  plan.recompute = {{Recompute::kOperators, 0, {LayerOperator::kNorm}}};
  EXPECT_EQ(words_of(outside_space(plan, {})), "homes of kept tensors");
  EXPECT_TRUE(outside_space(plan, pinned({{"/recompute", "norm"}})).empty());
}

// One variant alone is fast: of a leaf that is set aside, in tiles, of a deep prefetch.
TEST(Variants, TheFastestIsFoundAmongThem) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  const Pins pins = pinned({{"/parallel/tp", "1"},
                            {"/parallel/pp", "1"},
                            {"/batch/micro_batch", "1"},
                            {"/zero_stage", "3"}});
  Evaluator evaluator = flat();
  evaluator.simulate = [](const Plan& p) {
    const bool is_it = p.placement.params == Tier::kNvme && p.placement.grads == Tier::kCpu &&
                       p.gather.tiles() == 2 && p.prefetch == 3 && !p.all_full();
    return Seconds{is_it ? 5.0 : 10.0};
  };
  const SearchResult result = search(model, cluster, pins, evaluator, {.variants = true});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->step, Seconds{5.0});
  EXPECT_EQ(result.best->plan.prefetch, 3);
  EXPECT_EQ(result.stats.gap, 0);
  const SearchResult leaves = search(model, cluster, pins, evaluator, {});
  EXPECT_EQ(leaves.best->step, Seconds{10.0}) << "it is no leaf, and no knob leads there";
}

// A floor holds for all variants of a leaf, so that the gap does until they are simulated.
TEST(Variants, AreOpenUntilTheyAreSimulated) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  const Pins pins = pinned({{"/batch/micro_batch", "1"},
                            {"/parallel/tp", "1"},
                            {"/parallel/pp", "1"},
                            {"/zero_stage", "3"},
                            {"/placement/grads", "gpu"}});
  Evaluator evaluator = flat();
  evaluator.estimate = [](const Plan& p) {
    return Estimate{{p.gather.tiles() == 4 ? 6.0 : 11.0}, {}};
  };
  evaluator.fit = [](const Plan& p) { return Fit{{6.0}, {}, {1}, p.slack, p.prefetch, p.gather}; };
  evaluator.simulate = [](const Plan&) { return Seconds{12.0}; };
  const SearchOptions few{.variants = true, .max_simulated = 1};
  const SearchOptions all{.variants = true};
  EXPECT_DOUBLE_EQ(search(model, cluster, pins, evaluator, few).stats.gap, 0.5);
  EXPECT_LE(search(model, cluster, pins, evaluator, all).stats.gap, kProvenGap);
}

// To simulate a plan, or to bound a variant, takes 100 operations; the bounds close all variants,
// but no leaf.
TEST(Variants, ALargerBudgetSimulatesMoreLeaves) {
  const auto simulated = [](std::int64_t operations) {
    const auto count = std::make_shared<std::atomic<std::int64_t>>(0);
    const auto spend = [count](double seconds) {
      *count += 100;
      return Seconds{seconds};
    };
    Evaluator evaluator = flat();
    evaluator.fit = [](const Plan& p) {
      return Fit{{9.95}, {}, {1}, p.slack, p.prefetch, p.gather};
    };
    evaluator.simulate = [spend](const Plan&) { return spend(10); };
    evaluator.bound = [spend](const Plan&) { return spend(9.95); };
    evaluator.bound_of_depths = evaluator.bound;
    evaluator.operations = [count] { return count->load(); };
    const SearchOptions options{.variants = true,
                                .max_simulated = 1,
                                .min_operations = operations,
                                .first_operations = 2'000};
    return search(load_model("tiny"), load_cluster("workstation"), {}, evaluator, options)
        .stats.simulated;
  };
  const std::int64_t usual = simulated(2'000);
  EXPECT_GT(usual, 0);
  EXPECT_GE(simulated(8'000), 2 * usual);
}

std::optional<Infeasible> lacks(Tier tier) {
  Infeasible why;
  why.tier = tier;
  why.needed = {2};
  why.available = {1};
  return why;
}

// A leaf that fits in tiles sets aside siblings that may fit whole, with a lower floor.
TEST(Variants, AFloorIsThatOfHomesThatAreSetAsideToo) {
  const Pins pins = pinned({{"/batch/micro_batch", "1"},
                            {"/parallel/tp", "1"},
                            {"/parallel/pp", "1"},
                            {"/zero_stage", "3"},
                            {"/placement/grads", "gpu"}});
  const auto is_whole = [](const Plan& p) { return p.gather == Gather::kOperator; };
  const auto misfit = [=](const Plan& p) {
    const bool is_near = p.placement.params == Tier::kGpu;
    return is_near && is_whole(p) ? lacks(Tier::kGpu) : std::nullopt;
  };
  Evaluator evaluator = flat();
  evaluator.estimate = [=](const Plan& p) {
    return Estimate{{is_whole(p) ? 6.0 : 12.0}, misfit(p)};
  };
  evaluator.fit = [=](const Plan& p) {
    return Fit{{is_whole(p) ? 6.0 : 12.0}, misfit(p), {1}, p.slack, p.prefetch, p.gather};
  };
  evaluator.simulate = [](const Plan&) { return Seconds{12.0}; };
  const SearchResult result = search(load_model("tiny"), load_cluster("workstation"), pins,
                                     evaluator, {.variants = true, .max_simulated = 1});
  EXPECT_DOUBLE_EQ(result.stats.gap, 0.5);
}

// Where a node lacks memory for the ranks that it has in one order it may hold those of another.
TEST(Variants, ALeafThatDoesNotFitMayInAnotherOrder) {
  const Pins pins = pinned({{"/parallel/dp", "8"},
                            {"/parallel/tp", "1"},
                            {"/parallel/pp", "4"},
                            {"/zero_stage", "1"},
                            {"/placement/optimizer", "cpu"}});
  const auto is_fast = [](const Plan& p) { return !p.all_full(); };
  Evaluator evaluator = flat();
  const auto misfit = [=](const Plan& p) {
    return is_fast(p) && p.order == RankOrder::kDataFirst ? lacks(Tier::kCpu) : std::nullopt;
  };
  evaluator.estimate = [=](const Plan& p) { return Estimate{{misfit(p) ? 0.0 : 1.0}, misfit(p)}; };
  evaluator.fit = [=](const Plan& p) {
    return Fit{{1.0}, misfit(p), {1}, p.slack, p.prefetch, p.gather};
  };
  evaluator.simulate = [=](const Plan& p) { return Seconds{is_fast(p) ? 5.0 : 10.0}; };
  const SearchResult result =
      search(load_model("tiny"), load_cluster("dgx2x2"), pins, evaluator, {.variants = true});
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->step, Seconds{5.0});
  EXPECT_EQ(result.best->plan.order, RankOrder::kPipelineFirst);
}

TEST(Variants, ASearchThatIsStoppedAnswersWithTheBestSoFar) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  int asked = 0;
  const SearchOptions options{.variants = true, .stop = [&] { return ++asked > 3; }};
  const SearchResult result = search(model, cluster, {}, flat(), options);
  ASSERT_TRUE(result.best);
  EXPECT_TRUE(result.stats.stopped);
  EXPECT_DOUBLE_EQ(result.stats.gap, 0.9);
}

// A deeper ring waits for less and takes no less memory, in few of a million.
TEST(Variants, ADeeperPrefetchHasNoGreaterBound) {
  const ModelConfig model = load_model("10B");
  const Cluster cluster = load_cluster("dgx2");
  const Evaluator evaluator = make_evaluator(model, cluster);
  const Pins pins = pinned({{"/batch/micro_batch", "1"}, {"/zero_stage", "3"}});
  const Variants variants(model, cluster, pins);
  const std::vector<Plan> leaves = enumerate(model, cluster, pins);
  int compared = 0;
  for (std::size_t i = 0; i < leaves.size(); i += 397)
    for (const Plan& plan : variants.of(leaves[i])) {
      const std::vector<Plan> depths = variants.depths(plan);
      const Fit least = evaluator.fit(depths.front());
      if (least.infeasible) continue;
      const Seconds deepest = evaluator.bound_of_depths(depths.back());
      for (const Plan& deep : depths) {
        const Fit fit = evaluator.fit(deep);
        EXPECT_GE(fit.gpu.value * (1 + Plan{}.slack), least.gpu.value);
        EXPECT_LE(deepest, evaluator.bound(deep)) << to_json(deep);
        if (fit.infeasible) continue;
        EXPECT_DOUBLE_EQ(fit.bound.value, evaluator.bound(deep).value);
        ++compared;
      }
    }
  EXPECT_GT(compared, 50);
}

// Whatever recomputes, and wherever optimizer states are: no Job is lowered for the others.
TEST(Variants, WhatGradientsAreCopiedBetweenTiersIsFoundOnce) {
  const ModelConfig model = load_model("10B");
  const Cluster cluster = load_cluster("dgx2");
  const Evaluator evaluator = make_evaluator(model, cluster);
  const Pins pins = pinned({{"/batch/micro_batch", "1"},
                            {"/parallel/tp", "8"},
                            {"/parallel/pp", "1"},
                            {"/zero_stage", "2"},
                            {"/placement/params", "gpu"},
                            {"/placement/grads", "cpu"},
                            {"/placement/activations", "gpu"}});
  std::optional<Seconds> first;
  std::int64_t spent = 0;
  std::set<std::pair<Tier, Recompute>> compared;
  for (const Plan& plan : enumerate(model, cluster, pins)) {
    if (!plan.gather.by_layer()) continue;
    const Seconds bound = evaluator.bound_of_depths(plan);
    EXPECT_GT(bound, evaluator.estimate(plan).bound * kFarAbove) << to_json(plan);
    if (!first) spent = evaluator.operations();
    EXPECT_EQ(bound, first.value_or(bound));
    EXPECT_EQ(evaluator.operations(), spent) << to_json(plan);
    EXPECT_LE(bound, evaluator.bound(plan)) << to_json(plan);
    spent = evaluator.operations();
    first = bound;
    compared.emplace(plan.placement.optimizer, plan.recompute.front().mode);
  }
  EXPECT_GE(compared.size(), 4U);
}

}  // namespace
}  // namespace zplan
