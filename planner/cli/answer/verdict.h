// The one line that an answer begins with: whether the cluster trains the model, how fast, what
// limits it and how.
#pragma once

#include <string>

#include "planner/cli/answer/answer.h"

namespace zplan {

// "yes: 10B trains on dgx2 at 6.01 s per step (21,800 tokens/s), limited by compute; ZeRO-3 over 16
// GPUs", or "no: ..".
std::string verdict_line(const Answer& answer);

}  // namespace zplan
