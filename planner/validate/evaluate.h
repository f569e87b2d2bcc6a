// One run beside its measurement: planned as its record says (record_plan.h), lowered, placed and
// simulated on the named hardware. What does not fit is simulated all the same and marked.
//
// Predicted memory is that of the GPU that needs most: its slab and, of the reserve, what the
// measurement sees. allocator_peak, reserved_peak: library workspaces; nvidia_smi: context and
// communicators too.
// Left out: verify(), which checks Jobs, not predictions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/certainty/kind.h"
#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"
#include "sim/step_split.h"

namespace zplan {

// Seconds of a predicted step by part (sim/step_split.h), by StepUse; they add up to the step.
using StepParts = std::array<double, sim::kStepUseCount>;

// (predicted - measured) / measured, in per cent.
inline double error_pct(double predicted, double measured) {
  return 100 * (predicted / measured - 1);
}

struct RunResult {
  std::string id, group, stack, kernel_set;
  std::string sweep;  // equal: plans for the same task, model, GPUs, sequence and global batch
  std::vector<std::string> flags;
  std::string unsupported;  // why nothing is predicted; empty: it is
  // It fits with the whole reserve, in all tiers; nothing: what the record leaves open decides.
  std::optional<bool> fits = true;
  bool out_of_memory = false;  // as labelled
  std::optional<double> predicted_s{}, measured_s{};
  double low_s = 0, high_s = 0;        // the 80 % interval of predicted_s, where that is
  StepParts parts{};                   // of predicted_s, where that is
  std::vector<std::string> unknown{};  // what no measured run speaks for
  Kind kind{};                         // where a time is predicted
  std::int64_t parameters = 0;         // of the model, likewise
  // Predicted where measured: what is expected, and what 19 of 20 runs stay below.
  std::optional<double> predicted_gib{}, bound_gib{}, measured_gib{};

  bool has_time() const { return predicted_s && measured_s; }
  bool in_interval() const { return low_s <= *measured_s && *measured_s <= high_s; }
  bool has_memory() const { return predicted_gib && measured_gib; }
  double time_error_pct() const { return error_pct(*predicted_s, *measured_s); }
  double memory_error_pct() const { return error_pct(*predicted_gib, *measured_gib); }
};

RunResult evaluate(const RunRecord& run, const RunCatalogues& catalogues,
                   const StackProfile* stack = nullptr);

}  // namespace zplan
