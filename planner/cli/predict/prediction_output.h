// How predictions are shown, shared by the answers of plan, simulate and memory.
#pragma once

#include <string>
#include <vector>

#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/validate/anchoring.h"

namespace zplan {

// {"gpu": {"peak_bytes", ..}, "cpu", "nvme", "allocator", "classes"}. Of each tier the text, which
// starts with `indent` spaces, names up to `categories`, the largest. The words of "allocator" are
// what a caching allocator makes of it, those of "classes" the placement.
Sheet memory_sheet(const MemoryPrediction& memory, std::size_t indent, std::size_t categories = 4);
// {"tier", "needed_bytes", ..} or null; the words: how much is lacking.
Value misfit(const std::optional<Infeasible>& why);
// What each tier lacks and what is in it, a paragraph each; empty when all fits.
std::string over_text(const MemoryPrediction& memory);

// {"step_s", "interval", ..}. The words of "limits" are what limits the step, those of "certainty"
// what its interval rests on: what no run speaks for, and whether any was ever so fast.
Sheet time_sheet(const PlannedJob& planned, const TimePrediction& time, std::size_t indent);

// These values say what runs of the user's own have changed (--anchor, --measured), and are left
// out without any; the words are a paragraph per run and an empty line.
Value anchors_value(const std::vector<Anchor>& anchors);
Value memory_calibration_value(const std::optional<MemoryCalibration>& calibration);

// What simulate and memory say of any plan: of what, whether it fits, and the choices; JSON has its
// memory here. Further down the memory for people.
void say_plan(Sheet& out, const PlannedJob& planned, const Cluster& cluster,
              const MemoryPrediction& prediction, const Sheet& memory);
void say_memory(Sheet& out, const Sheet& memory);

}  // namespace zplan
