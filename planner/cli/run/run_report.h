// The answer of `zplan run`: steps, predicted against measured step time, and the comparison with
// the reference. JSON schema "zplan.run/1"; times differ from run to run, the rest does not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/memory/process_memory.h"
#include "exec/run.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/run/process_memory.h"
#include "planner/cli/run/training.h"
#include "planner/program/timeline/comparison.h"

namespace zplan {

// Of this process at the end of its last step, and what it was predicted to hold beside slabs.
struct RunMemory {
  Bytes placed{0};  // slabs in memory
  exec::ProcessMemory measured;
  ProcessUse predicted;
  Bytes beside_slabs() const { return measured.resident - placed; }
};

// What a run trains on.
struct RunData {
  std::string name;
  std::int64_t tokens = 0;
};

struct RunReport {
  RunData data;
  std::vector<exec::StepResult> steps;
  std::int64_t steps_wanted = 0;
  std::vector<exec::ValidationResult> validations;
  bool interrupted = false;
  bool gave_up_step = false;                   // half done
  std::optional<exec::StorageReport> storage;  // of a plan with states on NVMe
  std::vector<exec::KernelChoice> choices;     // of a device that has several kernels for one thing
  std::optional<Seconds> measured;             // median step, without the first
  std::optional<Seconds> predicted;            // steady-state step on the plan's hardware
  std::string no_prediction;                   // why there is none
  Timeline mean_step;                          // measured; may be empty
  std::optional<Comparison> split;             // both by kind of operation and lane
  std::optional<RunMemory> memory;             // where all ranks are in it and use the host's
  bool checked = false;
  std::vector<CheckRow> check;
  exec::ResumePoint begin;
  std::optional<exec::SaveReport> saves;
  std::string weights;  // that training began with; empty: none
  std::optional<exec::ExportReport> exported;
  Timeline timeline;  // of all steps; empty unless a file of it is asked for

  // Of the training, that is done.
  std::int64_t last_step() const { return begin.step + static_cast<std::int64_t>(steps.size()); }
  bool agrees() const;  // with the reference; true when not checked
};

Sheet run_sheet(const PlannedJob& planned, const RunReport& report);
}  // namespace zplan
