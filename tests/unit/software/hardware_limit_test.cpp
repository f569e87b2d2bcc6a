#include "planner/search/hardware_limit.h"

#include <gtest/gtest.h>

#include "planner/foreign/model_file.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

struct Question {
  const char* model;
  const char* cluster;
};

// No plan of ours, as fast as the hardware, takes less than the limit.
TEST(HardwareLimit, IsBelowEveryPlanThatIsSimulated) {
  for (const auto& [name, where] :
       {Question{"gpt2-1.5b", "dgx2"}, Question{"llama3-8b", "dgx-h100"},
        Question{"mixtral-8x7b", "dgx-a100x4"}}) {
    const ModelConfig model = load_named_model(name).model;
    const Cluster cluster = load_cluster(where);
    const auto profiles = stack_catalogue();
    const SearchOptions options{.max_simulated = 4};
    const SearchResult found =
        search(model, cluster, Pins{}, make_evaluator(model, cluster), options);
    ASSERT_TRUE(found.best) << name;
    const int capability = find_kernel_set(found.best->plan.kernel_set).capability;
    const auto limit =
        hardware_limit(found.best->plan, model, cluster, fastest_rates(profiles, capability));
    ASSERT_TRUE(limit) << name;
    for (const Simulated& one : found.simulated) EXPECT_LE(limit->value, one.step.value) << name;
    EXPECT_GT(limit->value, 0.3 * found.best->step->value) << name;
  }
}

TEST(HardwareLimit, HalvesWithTwiceTheDevices) {
  const ModelConfig model = load_named_model("llama3-8b").model;
  Plan plan;
  plan.model = model.name;
  plan.kernel_set = load_cluster("dgx-h100").node.device.kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 512, .micro_batch = 1, .sequence = 8192};
  const auto one = hardware_limit(plan, model, load_cluster("dgx-h100"), StackRates{});
  const auto two = hardware_limit(plan, model, load_cluster("dgx-h100x2"), StackRates{});
  ASSERT_TRUE(one && two);
  EXPECT_DOUBLE_EQ(one->value, 2 * two->value);
}

TEST(HardwareLimit, TakesTheFastestOfEachRate) {
  StackProfile slow, fast;
  slow.rates.loss = 2;
  fast.rates.loss = 0.5;
  fast.rates.gemm = 1.2;
  const StackRates best = fastest_rates(std::vector{slow, fast}, 90);
  EXPECT_EQ(best.loss, 0.5);
  EXPECT_EQ(best.gemm, 1);
  EXPECT_EQ(best.host_step, 0);
}

}  // namespace
}  // namespace zplan
