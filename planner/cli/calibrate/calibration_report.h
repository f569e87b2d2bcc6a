// What `zplan calibrate` found and what it changes in a profile. JSON schema
// "zplan.calibration/1".
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/measure/calibration.h"
#include "exec/measure/core_calibration.h"
#include "exec/measure/node_collectives.h"
#include "hwprofiles/hw_profile.h"
#include "planner/cli/calibrate/collective_curves.h"
#include "planner/cli/frame/sheet.h"

namespace zplan {

// A value of the profile that was replaced.
struct ProfileChange {
  std::string pointer;      // "/device/gemm_efficiency"
  std::string before, now;  // as written; before may be empty: it was not given
};

struct CalibrationReport {
  std::string device, kernel_set, date, base;
  bool quick = false;
  exec::Calibration found;
  std::optional<Bytes> memory, context;              // of a GPU
  std::optional<exec::CoreCalibration> cores;        // of devices that are cores of the host
  std::optional<exec::NodeCollectives> collectives;  // among GPUs
  std::string no_collectives;                        // why there are none although there are GPUs
  std::vector<ProfileChange> changes;
  std::vector<CurveChange> curves;
};

// What collectives among so many GPUs take, the first of which is open, or why that cannot be had:
// what else the report has stands without it.
void measure_collectives(exec::Device& first, int gpus,
                         const std::function<std::shared_ptr<exec::Device>(int)>& open,
                         const exec::NodeCollectiveOptions& options, CalibrationReport& report);

// The base with what was measured in it, as text of a zplan.hw/1 file; fills changes and curves.
// What exceeds the peak that the base states becomes the peak. Throws Error when the result is no
// profile that loads.
std::string calibrated_profile(const std::string& base_text, const HwProfile& base,
                               CalibrationReport& report);

Sheet calibration_sheet(const CalibrationReport& report);
// [{"pointer", "before", "now"}]; the words are a table, empty without changes.
Value changes_value(const std::string& base, const std::vector<ProfileChange>& changes);

// The member "cores" of a profile (hwprofiles/core_profile.h), as JSON; `ref`: of all its values.
std::string cores_member(const exec::CoreCalibration& found, const std::string& ref);

// "GPT-2 1.5B qkv forward, 8192 x 4800 x 1600: 1.20 ms, 105 TFLOP/s"
std::string measurement_line(const exec::Measurement& measurement);

}  // namespace zplan
