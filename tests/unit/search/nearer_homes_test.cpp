// How many layers have a state nearer, where plans fit and take as long as the test says.
#include "planner/search/nearer_homes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "planner/search/search.h"

namespace zplan {
namespace {

// One stage of 48 layers.
class NearerHomesTest : public testing::Test {
 protected:
  NearerHomesTest() {
    plan_.kernel_set = "cpu.bf16";
    plan_.precision = default_recipe(plan_.kernel_set);
    plan_.zero_stage = 3;
    plan_.batch = {.global_batch = 4, .micro_batch = 1, .sequence = 64};
    plan_.placement = {Tier::kNvme, Tier::kNvme, Tier::kNvme};
  }

  static int near(const Plan& plan, ModelState state) {
    return plan.placement.near_units(state, kLayers);
  }

  // Where so many layers of all states fit, and the time follows them.
  Plan tuned(int room, const std::function<double(const Plan&)>& time) {
    const auto fits = [&](const Plan& plan) {
      int sum = 0;
      for (const ModelState state : kModelStates) sum += near(plan, state);
      return sum <= room;
    };
    const auto fastest = [&](const Plan& plan, const std::vector<Plan>& others) {
      Plan best = plan;
      for (const Plan& other : others) {
        EXPECT_TRUE(fits(other));
        ++tried_;
        if (time(other) < time(best)) best = other;
      }
      return best;
    };
    return NearerHomes(load_model("gpt2-1.5b"), pins_, fits, fastest).tune(plan_);
  }

  static constexpr int kLayers = 48;
  Plan plan_;
  Pins pins_;
  int tried_ = 0;
};

double by_parameters(const Plan& plan) { return 1 - plan.placement.params_near; }

TEST_F(NearerHomesTest, AreAsManyAsFitWhereMoreAreFaster) {
  pins_.set("/placement/grads_near", 0.0);
  pins_.set("/placement/optimizer_near", 0.0);
  for (const int room : {0, 1, 2, 3, 17, 31, 46, 47}) {
    tried_ = 0;
    EXPECT_EQ(near(tuned(room, by_parameters), ModelState::kParameters), room);
    EXPECT_LE(tried_, 2);  // the times of others say nothing
  }
  // All are those of another home.
  EXPECT_EQ(near(tuned(100, by_parameters), ModelState::kParameters), kLayers - 1);
}

TEST_F(NearerHomesTest, AreFewerWhereThatIsFaster) {
  pins_.set("/placement/params_near", 0.0);
  pins_.set("/placement/grads_near", 0.0);
  for (const int best : {3, 12, 20, 24, 30}) {
    const auto time = [&](const Plan& plan) {
      return std::abs(near(plan, ModelState::kOptimizer) - best);
    };
    EXPECT_NEAR(near(tuned(100, time), ModelState::kOptimizer), best, 3) << best;
  }
}

TEST_F(NearerHomesTest, LeaveWhatIsPinnedOrSlowerAsItIs) {
  const auto any = [](const Plan& plan) { return 100 - plan.placement.params_near; };
  EXPECT_EQ(tuned(40, [](const Plan&) { return 1.0; }), plan_);
  for (const char* pin :
       {"/placement/params_near", "/placement/grads_near", "/placement/optimizer_near"})
    pins_.set(pin, 0.0);
  EXPECT_EQ(tuned(40, any), plan_);
}

TEST_F(NearerHomesTest, AreOfParametersFirst) {
  const auto time = [](const Plan& plan) {
    return 3 - plan.placement.params_near - plan.placement.grads_near -
           plan.placement.optimizer_near;
  };
  const Plan plan = tuned(60, time);
  EXPECT_EQ(near(plan, ModelState::kParameters), kLayers - 1);
  EXPECT_EQ(near(plan, ModelState::kGradients), 60 - (kLayers - 1));
  EXPECT_EQ(near(plan, ModelState::kOptimizer), 0);
}

}  // namespace
}  // namespace zplan
