#include "planner/plan/plan_schedule.h"

#include "planner/program/schedule/in_flight.h"
#include "planner/program/schedule/one_forward_one_backward.h"

namespace zplan {

PassOrder order_of_stage(const Plan& plan, std::int32_t stage) {
  const auto micros = static_cast<std::int32_t>(plan.micro_steps());
  if (plan.schedule == Schedule::kGpipe) return gpipe_order(micros);
  return one_forward_one_backward_order(stage, plan.parallel.pp, micros);
}

std::vector<std::int64_t> in_flight_of_stages(const Plan& plan) {
  std::vector<std::int64_t> counts;
  for (std::int32_t stage = 0; stage < plan.parallel.pp; ++stage)
    counts.push_back(forward_to_backward(order_of_stage(plan, stage).passes, 0).span);
  return counts;
}

}  // namespace zplan
