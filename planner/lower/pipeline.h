// The order of micro-batches on one stage [Narayanan21 sec 2.2].
//   1F1B   stage i of p runs w = min(p - 1 - i, m) forwards ahead, then alternates forward and
//          backward, then drains: up to w + 1 micro-batches in flight
//   GPipe  all forwards, then all backwards: m in flight [Huang19]
// The last backward is emitted apart where it differs (reductions after the last micro-batch).
#pragma once

#include <functional>

#include "planner/lower/stage.h"

namespace zplan {

// Bodies are emitted inside blocks that bind Var::kMicro to their micro-batch.
struct MicroStep {
  std::function<void()> forward;
  std::function<void(bool last)> backward;
};

void emit_schedule(Stage& stage, bool last_differs, const MicroStep& step);

}  // namespace zplan
