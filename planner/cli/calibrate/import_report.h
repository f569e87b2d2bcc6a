// What `zplan calibrate --import` took from files of other tools, and what it changes in a profile.
// JSON schema "zplan.import/1".
#pragma once

#include <string>
#include <vector>

#include "planner/cli/calibrate/calibration_report.h"
#include "planner/cli/calibrate/collective_curves.h"
#include "planner/foreign/measured_file.h"

namespace zplan {

struct ImportReport {
  std::string base;
  std::vector<MeasuredFile> files;  // in the order given
  std::vector<CurveChange> curves;
  std::vector<ProfileChange> changes;
  std::vector<std::string> notes;  // what replaced what, what was left out
};

// The base with what report.files say in it, as text of a zplan.hw/1 file; fills the rest of the
// report. Later files win. Throws Error where the base has no such GPUs or drives.
std::string imported_profile(const std::string& base_text, const HwProfile& base,
                             ImportReport& report);

Sheet import_sheet(const ImportReport& report);

}  // namespace zplan
