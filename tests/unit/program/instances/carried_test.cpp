// A step begins with the model states and with the gradients that a delayed update has left.
#include "planner/program/instances/carried.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model_config.h"
#include "planner/lower/lower.h"

namespace zplan {
namespace {

RankClass with_a_delayed_update() {
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = 2;
  plan.zero_stage = 2;
  plan.placement.grads = plan.placement.optimizer = Tier::kCpu;
  plan.delayed_update = true;
  plan.batch = {.global_batch = 8, .micro_batch = 4, .sequence = 32};
  return lower(plan, load_model("tiny-gpt")).classes[0];
}

// A step that is given up behind such an operation could not be done anew.
TEST(StateChanges, HaveEveryOperationThatWritesWhatIsCarried) {
  const RankClass c = with_a_delayed_update();
  const std::vector<BufferId> carried = carried_buffers(c);
  const std::vector<bool> changes = state_changes(c);
  int writers = 0;
  for (std::size_t n = 0; n < c.program.nodes.size(); ++n) {
    const Node& node = c.program.nodes[n];
    const auto views = c.program.operands(node);
    const bool writes_carried = std::any_of(views.begin(), views.end(), [&](const View& v) {
      return writes(v.access) &&
             std::find(carried.begin(), carried.end(), v.buffer) != carried.end();
    });
    if (node.kind == OpKind::kMark || !writes_carried) continue;
    ++writers;
    EXPECT_TRUE(changes[n]) << name(node.role);
  }
  EXPECT_GT(writers, 0);
}

}  // namespace
}  // namespace zplan
