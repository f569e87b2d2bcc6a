// Where predictions stand on measured runs: which stacks, devices, formats and features they cover,
// how far predictions are from them, and the best that was reached on each device. File format
// "zplan.measured/1"; hwprofiles/measured/runs.json, of published runs, is written by the fit
// (tests/fit), own.json, of zplan's own, from their reports (tests/golden/own_measured.py). Both
// are compiled into the library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// Runs of a stack that are looked at together: of a published one all, of our own those of each
// kind of device.
struct MeasuredStack {
  std::string name;
  int runs = 0;
  double run_sd = 0;     // of log(measured / predicted): 80 % of them lie within 1.28 of it
  int most_devices = 0;  // of a run
  std::vector<std::string> devices, formats, features;  // as planner/certainty/kind.h names them
  std::vector<std::string> fitted;                      // rates
  std::vector<std::vector<double>> correlation;         // of their logarithms; all columns
};

// The run that used the most of a device's peak.
struct BestRun {
  std::string device, format, run;
  double mfu = 0;
};

struct MeasuredRuns {
  std::vector<MeasuredStack> stacks;
  std::vector<BestRun> best;

  std::vector<MeasuredStack> of_stack(std::string_view name) const;  // none: no run of it
  const BestRun* best_of(std::string_view device, std::string_view format) const;
};

MeasuredRuns load_measured_runs();
MeasuredRuns parse_measured_runs(std::string text, std::string file_name);
std::string to_json(const MeasuredRuns& runs);

}  // namespace zplan
