// Each objective against a loop over the whole space that lowers, places and simulates every plan
// and knows no bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "planner/core/error.h"
#include "planner/search/questions/longest_sequence.h"
#include "planner/search/questions/most_headroom.h"
#include "planner/search/questions/rank_counts.h"
#include "planner/search/stack_memory_use.h"
#include "tests/support/pinned.h"

namespace zplan {
namespace {

using testing_support::pinned;

// The space alone: nothing is tuned beside it.
Pins small_space(Pins pins) {
  pins.set("/gather/prefetch", 1);
  pins.tunes_units = false;
  pins.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull}});
  pins.set("/checkpoint_layers", 1);
  pins.set("/overlap/optimizer", false);
  return pins;
}

Cluster with_memory(const char* name, std::int64_t mebibytes) {
  Cluster cluster = load_cluster(name);
  DeviceProfile& device = cluster.node.device;
  device.memory = device.reserve() + reserve_margin(device) + Bytes{mebibytes << 20};
  return cluster;
}

std::vector<Simulated> everything(const ModelConfig& model, const Cluster& cluster,
                                  const Pins& pins) {
  const Evaluator evaluator = make_evaluator(model, cluster);
  std::vector<Simulated> fitting;
  std::vector<Plan> plans;
  try {
    plans = enumerate(model, cluster, pins);
  } catch (const Error&) {
  }
  for (Plan& plan : plans) {
    const Fit fit = evaluator.fit(plan);
    if (fit.infeasible) continue;
    plan.slack = fit.slack;
    fitting.push_back({plan, evaluator.simulate(plan), fit.gpu});
  }
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const Simulated& a, const Simulated& b) { return a.step < b.step; });
  return fitting;
}

Pins with_ranks(Pins pins, std::int64_t ranks) {
  pins.ranks = ranks;
  return pins;
}

TEST(RankCounts, EveryNumberWithinANodeThenWholeNodes) {
  const Cluster cluster = load_cluster("workstationx3");
  EXPECT_EQ(all_rank_counts(cluster, {}), (std::vector<std::int64_t>{1, 2, 3, 4, 8, 12}));
  EXPECT_EQ(some_rank_counts(cluster, {}), (std::vector<std::int64_t>{1, 2, 4, 8, 12}));
  Pins pins = pinned({{"/parallel/dp", "3"}, {"/parallel/tp", "1"}, {"/parallel/pp", "2"}});
  EXPECT_EQ(some_rank_counts(cluster, pins), std::vector<std::int64_t>{6});
}

TEST(RankCounts, ManyNodesAreTriedByHalves) {
  std::vector<std::int64_t> nodes = some_rank_counts(load_cluster("dgx-h100x40"), {});
  std::erase_if(nodes, [](std::int64_t n) { return n < 8; });
  for (std::int64_t& n : nodes) n /= 8;
  EXPECT_EQ(nodes, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 40}));
}

TEST(RankCounts, APlanHasTheRanksThatAreAskedFor) {
  const ModelConfig model = load_model("tiny-gpt");
  for (const Plan& plan :
       enumerate(model, load_cluster("workstationx3"), with_ranks(small_space({}), 8)))
    ASSERT_EQ(plan.parallel.ranks(), 8);
}

class Fewest : public testing::TestWithParam<std::int64_t> {};

TEST_P(Fewest, AreThoseOfBruteForce) {
  const ModelConfig model = load_model("tiny-gpt");
  const Cluster cluster = with_memory("workstationx2", GetParam());
  Pins pins = small_space(pinned({{"/batch/sequence", "32"}, {"/batch/global_batch", "24"}}));
  pins.set("/placement/optimizer", Tier::kGpu);
  std::int64_t expected = 0, without = 0;
  for (const std::int64_t ranks : all_rank_counts(cluster, pins)) {
    if (!everything(model, cluster, with_ranks(pins, ranks)).empty()) {
      expected = ranks;
      break;
    }
    without = ranks;
  }
  const FewestRanks found = fewest_ranks(model, cluster, pins, {.threads = 2});
  EXPECT_EQ(found.ranks, expected);
  EXPECT_EQ(found.most_without, without);
  EXPECT_EQ(found.misfit.has_value() || !found.why.empty(), without > 0);
}

INSTANTIATE_TEST_SUITE_P(MebibytesOfAWorker, Fewest, testing::Values(8, 9, 10, 11, 14));

TEST(Cheapest, IsThatOfBruteForce) {
  const ModelConfig model = load_model("tiny-gpt");
  for (const char* name : {"workstation", "workstationx2"}) {
    const Cluster cluster = load_cluster(name);
    const Pins pins = small_space(pinned({{"/batch/global_batch", "8"}, {"/zero_stage", "1"}}));
    const CheapestRanks found =
        cheapest_ranks(model, cluster, pins, make_evaluator(model, cluster), {}, {.threads = 2});
    std::optional<double> least;
    double answered = 0;
    for (const RankCount& count : found.counts) {
      const auto plans = everything(model, cluster, with_ranks(pins, count.ranks));
      ASSERT_EQ(plans.empty(), !count.why.empty()) << count.ranks << count.why;
      if (plans.empty()) continue;
      const double cost = static_cast<double>(count.ranks) * plans.front().step.value;
      EXPECT_LE(count.least_cost, cost * (1 + 1e-9)) << count.ranks;
      if (count.step) {
        EXPECT_LE(count.cost, cost * (1 + kTieTolerance)) << count.ranks;
      }
      if (!least || cost < *least) least = cost;
      if (count.ranks == found.ranks) answered = count.cost;
    }
    EXPECT_LE(answered, *least * (1 + kTieTolerance));
  }
}

TEST(Cheapest, SaysWhyANumberHasNoPlan) {
  const ModelConfig model = load_model("tiny-gpt");
  const Pins pins = small_space(pinned({{"/parallel/tp", "4"}}));
  const Cluster cluster = load_cluster("workstation");
  const CheapestRanks found =
      cheapest_ranks(model, cluster, pins, make_evaluator(model, cluster), {}, {});
  EXPECT_EQ(found.ranks, 4);
  for (const RankCount& count : found.counts) EXPECT_EQ(count.is_legal, count.ranks == 4);
}

struct Room {
  const char* model;
  std::int64_t mebibytes;
};

class Longest : public testing::TestWithParam<Room> {};

TEST_P(Longest, IsThatOfBruteForce) {
  const ModelConfig model = load_model(GetParam().model);
  const Cluster cluster = with_memory("workstation", GetParam().mebibytes);
  Pins pins = small_space(pinned({{"/batch/global_batch", "4"},
                                  {"/parallel/tp", "1"},
                                  {"/parallel/pp", "1"},
                                  {"/placement/optimizer", "gpu"},
                                  {"/placement/activations", "gpu"}}));
  pins.set("/parallel/dp", 4);
  const LongestSequence found = longest_sequence(model, cluster, pins, {.threads = 2});
  std::int64_t expected = 0;
  const auto evaluator = make_evaluator(model, cluster);
  const auto fits = [&](std::int64_t tokens) {
    pins.set("/batch/sequence", tokens);
    std::vector<Plan> plans;
    try {
      plans = enumerate(model, cluster, pins);
    } catch (const Error&) {  // more than the model has positions
    }
    return std::any_of(plans.begin(), plans.end(),
                       [&](const Plan& plan) { return !evaluator.fit(plan).infeasible; });
  };
  for (std::int64_t tokens = 128; tokens < 1024; tokens += 128)
    if (fits(tokens)) expected = tokens;
  for (std::int64_t tokens = 1024; tokens <= 32 * 1024; tokens += 1024)
    if (fits(tokens)) expected = tokens;
  EXPECT_EQ(found.tokens, expected);
  EXPECT_EQ(found.misfit.has_value(), found.too_long > 0 && found.why.empty());
}

INSTANTIATE_TEST_SUITE_P(Rooms, Longest,
                         testing::Values(Room{"tiny-llama", 4}, Room{"tiny-llama", 16},
                                         Room{"tiny-llama", 64}, Room{"gpt2-124m", 700},
                                         Room{"gpt2-124m", 900}),
                         [](const auto& info) {
                           std::string name = info.param.model + std::string("_") +
                                              std::to_string(info.param.mebibytes);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Longest, LearnedPositionsBoundIt) {
  const ModelConfig model = load_model("tiny-gpt");
  const LongestSequence found = longest_sequence(model, load_cluster("workstation"), {}, {});
  EXPECT_EQ(found.tokens, model.positions());
  EXPECT_EQ(found.too_long, 0);
  EXPECT_EQ(found.most, model.positions());
  EXPECT_EQ(found.positions, model.positions());
}

TEST(MostHeadroom, IsThatOfBruteForce) {
  const ModelConfig model = load_model("tiny-gpt");
  const Cluster cluster = load_cluster("workstation");
  const Pins pins = small_space(
      pinned({{"/batch/global_batch", "8"}, {"/parallel/tp", "1"}, {"/parallel/pp", "1"}}));
  const std::vector<Simulated> all = everything(model, cluster, pins);
  ASSERT_FALSE(all.empty());
  for (const double within : {0.0, 0.05, 0.3, 100.0}) {
    const Simulated* best = nullptr;
    for (const Simulated& one : all)
      if (one.step <= all.front().step * (1 + within) &&
          (best == nullptr || std::pair(one.gpu, one.step) < std::pair(best->gpu, best->step)))
        best = &one;
    const MostHeadroom found = most_headroom(model, cluster, pins, make_evaluator(model, cluster),
                                             {all.front()}, within, {.threads = 3});
    EXPECT_EQ(found.best.gpu, best->gpu) << within;
    EXPECT_EQ(found.best.step, best->step) << within;
    EXPECT_TRUE(found.proven());
  }
}

// By its bound any plan may be fast enough; simulated, those that take least memory are not.
TEST(MostHeadroom, NoPlanThatTurnsOutSlowerThanAllowedIsGiven) {
  const ModelConfig model = load_model("tiny-gpt");
  const Cluster cluster = load_cluster("workstation");
  const Pins pins = small_space(
      pinned({{"/batch/global_batch", "8"}, {"/parallel/tp", "1"}, {"/parallel/pp", "1"}}));
  const auto gpu = [](const Plan& plan) { return Bytes{300 - 100 * plan.zero_stage}; };
  Evaluator evaluator;
  evaluator.estimate = [](const Plan&) { return Estimate{{1}, {}}; };
  evaluator.fit = [&](const Plan& plan) {
    return Fit{.bound = {1},
               .infeasible = {},
               .gpu = gpu(plan),
               .slack = plan.slack,
               .prefetch = plan.prefetch,
               .gather = plan.gather};
  };
  evaluator.simulate = [](const Plan& plan) { return Seconds{plan.zero_stage < 2 ? 10.0 : 12.0}; };
  const Plan plain = enumerate(model, cluster, pins).front();
  const MostHeadroom found =
      most_headroom(model, cluster, pins, evaluator,
                    {{plain, evaluator.simulate(plain), gpu(plain)}}, 0.1, {.exhaustive = true});
  EXPECT_EQ(found.best.plan.zero_stage, 1);
  EXPECT_EQ(found.best.gpu, Bytes{200});
  EXPECT_EQ(found.best.step.value, 10.0);
}

TEST(MostHeadroom, WithoutSimulationsItSaysWhatIsOpen) {
  const ModelConfig model = load_model("tiny-gpt");
  const Cluster cluster = load_cluster("workstation");
  const Pins pins = small_space(
      pinned({{"/batch/global_batch", "8"}, {"/parallel/tp", "1"}, {"/parallel/pp", "1"}}));
  const std::vector<Simulated> all = everything(model, cluster, pins);
  const MostHeadroom found = most_headroom(model, cluster, pins, make_evaluator(model, cluster),
                                           {all.front()}, 100, {.max_simulated = 0});
  EXPECT_EQ(found.best.gpu, all.front().gpu);
  EXPECT_FALSE(found.proven());
  for (const Simulated& one : all) EXPECT_LE(found.least, one.gpu);
}

}  // namespace
}  // namespace zplan
