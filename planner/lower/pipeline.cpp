#include "planner/lower/pipeline.h"

#include <algorithm>

namespace zplan {
namespace {

void repeat_micros(Stage& stage, std::int32_t count, std::int32_t first,
                   const std::function<void()>& body) {
  stage.out.repeat({.count = count, .var = Var::kMicro, .first = first}, body);
}

void emit_gpipe(Stage& stage, std::int32_t apart, const MicroStep& step) {
  const std::int32_t m = stage.micro_steps;
  repeat_micros(stage, m, 0, step.forward);
  repeat_micros(stage, m - apart, 0, [&] { step.backward(false); });
  repeat_micros(stage, apart, m - 1, [&] { step.backward(true); });
}

void emit_1f1b(Stage& stage, std::int32_t apart, const MicroStep& step) {
  const std::int32_t m = stage.micro_steps;
  const std::int32_t ahead = std::min(stage.plan.parallel.pp - 1 - stage.index, m);
  if (ahead == 0) {
    const auto both = [&](bool last) {
      step.forward();
      step.backward(last);
    };
    repeat_micros(stage, m - apart, 0, [&] { both(false); });
    repeat_micros(stage, apart, m - 1, [&] { both(true); });
    return;
  }
  repeat_micros(stage, ahead, 0, step.forward);
  repeat_micros(stage, m - ahead, 0, [&] {
    stage.out.repeat({.count = 1, .var = Var::kMicro, .first = ahead, .relative = true},
                     step.forward);
    step.backward(false);
  });
  repeat_micros(stage, ahead - apart, m - ahead, [&] { step.backward(false); });
  repeat_micros(stage, apart, m - 1, [&] { step.backward(true); });
}

}  // namespace

void emit_schedule(Stage& stage, bool last_differs, const MicroStep& step) {
  const std::int32_t apart = last_differs ? 1 : 0;
  if (stage.plan.schedule == Schedule::kGpipe) {
    emit_gpipe(stage, apart, step);
  } else {
    emit_1f1b(stage, apart, step);
  }
}

}  // namespace zplan
