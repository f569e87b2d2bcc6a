// Shadow prices beside simulations of changes that they were not made of, over plans of every kind.
#include "planner/search/sensitivity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::recompute_all;
using testing_support::round_model;

struct Case {
  std::string name, cluster;
  int dp, tp, pp;
  std::int32_t zero;
  StatePlacement at;
  std::int64_t micro_steps = 2;
  LaunchMode launch = LaunchMode::kStream;
};

Job job_of(const Case& c, const Cluster& cluster) {
  Plan plan;
  plan.kernel_set = cluster.node.device.kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = c.dp;
  plan.parallel.tp = c.tp;
  plan.parallel.pp = c.pp;
  plan.zero_stage = c.zero;
  plan.placement = c.at;
  plan.launch = c.launch;
  plan.gather = Gather::kLayer;
  plan.recompute = recompute_all(Recompute::kFull);
  plan.batch = {.global_batch = c.micro_steps * c.dp, .micro_batch = 1, .sequence = 128};
  Job job = lower(plan, round_model());
  place(job, {.slack = plan.slack});
  return job;
}

std::vector<Case> cases() {
  using enum Tier;
  const StatePlacement near{kGpu, kGpu, kGpu, kGpu};
  return {
      {"one GPU", "dgx2", 1, 1, 1, 0, near},
      {"graphs", "dgx-h100", 1, 1, 1, 0, near, 2, LaunchMode::kGraph},
      {"ZeRO-3", "dgx-a100x2", 16, 1, 1, 3, near},
      {"ZeRO-1 over nodes", "dgx-h100x4", 32, 1, 1, 1, near},
      {"tensor parallel", "dgx-a100", 1, 8, 1, 0, near},
      {"pipeline", "dgx-a100x4", 1, 1, 4, 0, near, 8},
      {"all axes", "dgx-a100x4", 4, 4, 2, 1, near, 4},
      {"offload", "dgx2", 16, 1, 1, 3, {kCpu, kCpu, kCpu, kGpu}},
      {"drives", "dgx2", 16, 1, 1, 3, {kCpu, kCpu, kNvme, kGpu}},
      {"all on drives", "dgx2x2", 32, 1, 1, 3, {kNvme, kNvme, kNvme, kCpu}},
      {"optimizer on the host", "rtx4090-12ssd", 1, 1, 1, 0, {kGpu, kGpu, kCpu, kGpu}},
  };
}

Sensitivity priced(const Case& c, bool check = false) {
  const Cluster cluster = load_cluster(c.cluster);
  return find_sensitivity(job_of(c, cluster), cluster, {.threads = 2, .check = check});
}

const ShadowPrice* find(const Sensitivity& found, std::string_view name) {
  for (const ShadowPrice& price : found.prices)
    if (price.quantity->name == name) return &price;
  return nullptr;
}

// The step follows its slope up to the kink and no longer behind it.
void expect_kink(const Case& c, const ShadowPrice& price, const PriceSide& side, Seconds step) {
  const Cluster cluster = load_cluster(c.cluster);
  const Job job = job_of(c, cluster);
  const PriceCheck& check = *side.check;
  const double far = std::abs(check.predicted.value - check.simulated.value);
  const auto off = [&](double factor) {
    const StepAt at = step_at(job, cluster, *price.quantity, factor).value();
    const Seconds predicted = side.slope * effort(*price.quantity, factor);
    return std::abs((at.step.period - step - predicted).value);
  };
  SCOPED_TRACE(c.name + " " + std::string(price.quantity->name));
  EXPECT_LE(std::abs(side.factor - 1), std::abs(check.kink->from - 1) + 1e-12);
  EXPECT_LT(std::abs(check.kink->from - 1), std::abs(check.kink->to - 1));
  EXPECT_LE(std::abs(check.kink->to - 1), std::abs(check.factor - 1) + 1e-12);
  EXPECT_LE(off(check.kink->from), far / 2);
  EXPECT_GT(off(check.kink->to), far / 2);
}

TEST(ShadowPrices, PredictChangesOfFivePercentOrNameTheKink) {
  int sides = 0, kinks = 0, told = 0;
  for (const Case& c : cases()) {
    const Sensitivity found = priced(c, true);
    for (const ShadowPrice& price : found.prices) {
      for (const std::optional<PriceSide>* side : {&price.better, &price.worse}) {
        if (!*side) continue;
        ASSERT_TRUE((*side)->check) << c.name << " " << price.quantity->name;
        const PriceCheck& check = *(*side)->check;
        ++sides;
        const bool as_simulated = agrees(check.predicted, check.simulated, found.step.period);
        EXPECT_EQ(as_simulated, !check.kink) << c.name << " " << price.quantity->name;
        if (std::abs(check.simulated.value) > 0.001 * found.step.period.value) ++told;
        if (!check.kink) continue;
        ++kinks;
        expect_kink(c, price, **side, found.step.period);
      }
    }
  }
  RecordProperty("kinks", kinks);
  EXPECT_GT(sides, 150);
  EXPECT_GT(told, 30);           // changes that count
  EXPECT_LT(kinks, sides / 10);  // and most are as predicted
}

// Where nothing runs beside a path, the derivative along it is the slope of the step.
TEST(ShadowPrices, OfAPathAloneAreItsDerivative) {
  for (const Case& c : cases()) {
    if (c.name != "one GPU" && c.name != "tensor parallel" && c.name != "graphs") continue;
    const Sensitivity found = priced(c);
    for (const ShadowPrice& price : found.prices) {
      if (price.bends_here(found.step.period)) continue;
      const double share = price.better->slope.value / found.step.period.value;
      EXPECT_NEAR(price.critical_share, share, 0.02) << c.name << " " << price.quantity->name;
    }
  }
}

TEST(ShadowPrices, OfWhatNoOperationTouchesAreNotThere) {
  const Sensitivity found = priced(cases()[0]);
  for (const std::string_view name : {"nvme", "nvme.read", "network", "latency.ring_hop", "socket"})
    EXPECT_EQ(find(found, name), nullptr) << name;
  for (const std::string_view name : {"gpu.bandwidth", "gpu.peak", "gpu.launch"})
    EXPECT_NE(find(found, name), nullptr) << name;
  std::size_t of_time = 0;
  const Cluster cluster = load_cluster("dgx2");
  for (const HardwareQuantity& quantity : hardware_quantities()) {
    const auto value = quantity.get(cluster);
    const bool counts = quantity.unit != QuantityUnit::kBytes && !is_layout(quantity.name);
    of_time += counts && value && *value > 0 ? 1 : 0;
  }
  EXPECT_EQ(found.prices.size() + found.untouched.size(), of_time);
}

TEST(ShadowPrices, AreSortedByWhatTheSameChangeSaves) {
  const Sensitivity found = priced(cases()[8]);
  ASSERT_GT(found.prices.size(), 3U);
  for (std::size_t i = 1; i < found.prices.size(); ++i)
    EXPECT_GE(found.prices[i - 1].saved(0.1), found.prices[i].saved(0.1));
  EXPECT_GT(found.prices.front().saved(0.1).value, 0);
}

TEST(ShadowPrices, AreTheSameOnAnyNumberOfThreads) {
  const Cluster cluster = load_cluster("dgx2");
  const Job job = job_of(cases()[8], cluster);
  const Sensitivity one = find_sensitivity(job, cluster, {.threads = 1});
  const Sensitivity more = find_sensitivity(job, cluster, {.threads = 4});
  ASSERT_EQ(one.prices.size(), more.prices.size());
  for (std::size_t i = 0; i < one.prices.size(); ++i) {
    EXPECT_EQ(one.prices[i].quantity, more.prices[i].quantity);
    EXPECT_EQ(one.prices[i].saved(0.1), more.prices[i].saved(0.1));
    EXPECT_EQ(one.prices[i].critical_share, more.prices[i].critical_share);
  }
}

TEST(ShadowPrices, StopWhenAsked) {
  const Cluster cluster = load_cluster("dgx2");
  const Job job = job_of(cases()[8], cluster);
  const Sensitivity found =
      find_sensitivity(job, cluster, {.threads = 1, .stop = [] { return true; }});
  EXPECT_TRUE(found.is_stopped);
  EXPECT_TRUE(found.prices.empty());
  EXPECT_GT(found.step.period.value, 0);
}

TEST(ShadowPrices, CountEffortInTimePerByteAndInTime) {
  const HardwareQuantity& rate = find_quantity("pcie");
  const HardwareQuantity& latency = find_quantity("gpu.launch");
  EXPECT_DOUBLE_EQ(effort(rate, 2), -0.5);
  EXPECT_DOUBLE_EQ(effort(latency, 2), 1);
  EXPECT_TRUE(is_better_more(rate));
  EXPECT_FALSE(is_better_more(latency));
  // 10 s of a step of 100 s follow 16 GB/s.
  ShadowPrice price{.quantity = &rate,
                    .value = 16e9,
                    .better = PriceSide{.factor = 1.01, .slope = {10}, .check = {}},
                    .worse = PriceSide{.factor = 0.99, .slope = {20}, .check = {}},
                    .critical_share = 0.1};
  EXPECT_DOUBLE_EQ(price.saved(0.25).value, 2);
  EXPECT_DOUBLE_EQ(price.lost(0.5).value, 20);
  EXPECT_DOUBLE_EQ(price.per_unit() * 16e9, -10);
  EXPECT_TRUE(price.bends_here({100}));
  EXPECT_FALSE(price.bends_here({100'000}));
}

TEST(ShadowPrices, AgreeWithinATenthOfTheChangeOrAThousandthOfTheStep) {
  EXPECT_TRUE(agrees({1.0}, {1.09}, {10}));
  EXPECT_FALSE(agrees({1.0}, {1.2}, {10}));
  EXPECT_TRUE(agrees({0.0}, {0.009}, {10}));
  EXPECT_FALSE(agrees({0.0}, {0.011}, {10}));
}

}  // namespace
}  // namespace zplan
