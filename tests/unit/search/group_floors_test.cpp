#include "planner/search/group_floors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/pinned.h"

namespace zplan {
namespace {

using testing_support::pinned;

Pins some_pins() {
  return pinned({{"/batch/micro_batch", "1"}, {"/zero_stage", "2"}, {"/parallel/pp", "2"}});
}

// Of all plans of the space, one by one.
double least_of_each(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  const Evaluator evaluator = make_evaluator(model, cluster);
  const Variants variants(model, cluster, pins);
  double least = std::numeric_limits<double>::infinity();
  for (const Plan& leaf : enumerate(model, cluster, pins))
    for (const Plan& variant : variants.of(leaf))
      for (const Plan& plan : variants.depths(variant))
        if (const Estimate found = evaluator.estimate(plan); !found.infeasible)
          least = std::min(least, found.bound.value);
  return least;
}

TEST(LeastFloor, IsThatOfEachPlanByItself) {
  const ModelConfig model = load_model("10B");
  for (const char* name : {"dgx2", "dgx2x2"}) {
    const Cluster cluster = load_cluster(name);
    const auto found = least_floor(model, cluster, some_pins(), make_evaluator(model, cluster), 2);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->value, least_of_each(model, cluster, some_pins())) << name;
  }
}

TEST(LeastFloor, IsTheSameWithMoreNodesBesideThem) {
  const ModelConfig model = load_model("10B");
  const Pins pins = pinned({{"/batch/micro_batch", "1"}, {"/zero_stage", "3"}});
  for (const char* kind : {"dgx2", "dgx-h100"}) {
    Cluster largest = load_cluster(kind);
    largest.nodes = 64;
    const Evaluator shared = make_evaluator(model, largest);
    for (const int nodes : {1, 2, 6}) {
      Cluster cluster = load_cluster(kind);
      cluster.nodes = nodes;
      const auto own = least_floor(model, cluster, pins, make_evaluator(model, cluster), 2);
      EXPECT_EQ(own, least_floor(model, cluster, pins, shared, 2)) << kind << nodes;
    }
  }
}

TEST(LeastFloor, EndsAtTheFirstThatIsEnough) {
  const ModelConfig model = load_model("10B");
  const Cluster cluster = load_cluster("dgx2");
  int asked = 0;
  Evaluator counting = make_evaluator(model, cluster);
  counting.estimate = [&asked, one = counting.estimate](const Plan& plan) {
    ++asked;
    return one(plan);
  };
  const auto least = least_floor(model, cluster, {}, counting, 1);
  const int all = asked;
  const auto any = least_floor(model, cluster, {}, counting, 1, *least * 100);
  EXPECT_LT(asked - all, all / 10);
  EXPECT_GE(*any, *least);
  EXPECT_EQ(least_floor(model, cluster, {}, counting, 1, *least), least);  // none is below it
}

TEST(LeastFloor, IsNoneWhereNothingFits) {
  const ModelConfig model = load_model("10B");
  const Cluster cluster = load_cluster("dgx2");
  Pins pins = some_pins();
  pins.set("/placement/optimizer", Tier::kGpu);
  Cluster small = cluster;
  small.node.device.memory = small.node.device.reserve() + Bytes{1} * (std::int64_t{1} << 30);
  EXPECT_FALSE(least_floor(model, small, pins, make_evaluator(model, small), 2).has_value());
  EXPECT_TRUE(least_floor(model, cluster, pins, make_evaluator(model, cluster), 2).has_value());
}

}  // namespace
}  // namespace zplan
