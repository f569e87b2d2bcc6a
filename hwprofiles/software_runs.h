// Which published runs of each software were predicted, on which devices, and how well: what a
// software can be recommended on. File format "zplan.software_runs/1"; hwprofiles/predicted/
// software.json is written by tests/golden/software_runs.py from the same predictions as
// `zplan validate` gives, and compiled into the library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// The runs of one profile on one device.
struct SoftwareRuns {
  std::string software;  // name of its profile (hwprofiles/stack.h)
  std::string device;    // "H100-SXM5-80GB"
  int runs = 0;
  int fitted = 0;                    // of them, those that the rates of the profile were fitted on
  int most_devices = 0;              // of a run
  std::int64_t most_parameters = 0;  // of its model
  double within = 0;  // 8 of 10 predicted step times differ from the measured one by at most this
  std::vector<std::string> formats, features;  // as planner/certainty/kind.h names them
};

std::vector<SoftwareRuns> load_software_runs();
std::vector<SoftwareRuns> parse_software_runs(std::string text, std::string file_name);

}  // namespace zplan
