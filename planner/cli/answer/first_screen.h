// The first screen of an answer, 24 lines for most questions, in the order of what one does with
// it: whether the cluster trains the model and how fast, with which software, for how long and for
// how much, the plan, memory, where the time goes, what was passed over, what was assumed, what to
// type next. Everything else is printed with --details.
#pragma once

#include <string>

#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/options.h"

namespace zplan {

// "Yes: llama3-70b trains on dgx-h100x16 (128 GPUs): 28.4 s a step, 1,154 tokens/s per GPU, 52.4 %
// MFU", or "No: ..".
std::string headline(const Answer& answer);

std::string first_screen(const Answer& answer, const PlanCommand& command);

// [{"software", "title", "step_s", "low_s", "high_s", "tokens_per_s", "mfu", "basis"}].
Value software_value(const Answer& answer);

}  // namespace zplan
