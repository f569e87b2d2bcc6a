#include "planner/lower/pipeline.h"

#include <algorithm>

namespace zplan {

void emit_1f1b(Stage& stage, bool last_differs, const MicroStep& step) {
  const std::int32_t m = stage.micro_steps;
  const std::int32_t warm_up = std::min(stage.plan.parallel.pp - 1 - stage.index, m);
  const std::int32_t apart = last_differs ? 1 : 0;
  const auto over_micros = [&](std::int32_t count, std::int32_t first,
                               const std::function<void()>& body) {
    stage.out.repeat({.count = count, .var = Var::kMicro, .first = first}, body);
  };
  const auto backward = [&] { step.backward(false); };
  if (warm_up == 0) {
    over_micros(m - apart, 0, [&] {
      step.forward();
      step.backward(false);
    });
    over_micros(apart, m - 1, [&] {
      step.forward();
      step.backward(true);
    });
    return;
  }
  over_micros(warm_up, 0, step.forward);
  over_micros(m - warm_up, 0, [&] {
    stage.out.repeat({.count = 1, .var = Var::kMicro, .first = warm_up, .relative = true},
                     step.forward);
    backward();
  });
  over_micros(warm_up - apart, m - warm_up, backward);
  over_micros(apart, m - 1, [&] { step.backward(true); });
}

}  // namespace zplan
