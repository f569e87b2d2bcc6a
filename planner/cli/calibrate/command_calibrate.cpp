#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/cpu/cpu_device.h"
#include "exec/cuda_plugin.h"
#include "exec/measure/context_memory.h"
#include "exec/measure/driver.h"
#include "hwprofiles/node_file.h"
#include "planner/cli/calibrate/calibration_report.h"
#include "planner/cli/calibrate/import_report.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/progress.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

struct Base {
  HwProfile profile;
  std::string text;
};

Base load_base(const CalibrateCommand& command) {
  std::string name = command.base;
  if (name.empty()) name = command.device == DeviceChoice::kCpu ? "workstation" : "dgx-h100";
  HwProfile node = load_cluster(name).node;
  std::string text = hardware_template(node.file.empty() ? node.name : node.file);
  return {std::move(node), std::move(text)};
}

// That of the base, or the one for the device that computes in the same format.
const KernelSet& kernel_set_of(const exec::Device& device, RunsOn runs_on, const HwProfile& base) {
  const KernelSet& wanted = find_kernel_set(base.device.kernel_set);
  if (wanted.runs_on == RunsOn::kCpu && runs_on == RunsOn::kCpu) return wanted;
  const KernelSet* best = nullptr;
  std::string why = fmt::format("base {} has a kernel set of another device: {}", base.name,
                                base.device.kernel_set);
  for (const KernelSet& set : kernel_sets()) {
    if (set.runs_on != runs_on || runs_on == RunsOn::kCpu || set.compute != wanted.compute)
      continue;
    try {
      device.check(set);
      if (best == nullptr || set.capability > best->capability) best = &set;
    } catch (const Error& error) {
      why = error.what();
    }
  }
  if (best == nullptr) throw_bad_input(why);
  return *best;
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

std::string today() {
  std::array<char, 16> date{};
  const std::time_t now = std::time(nullptr);
  std::strftime(date.data(), date.size(), "%F", std::gmtime(&now));
  return date.data();
}

void measure(exec::Device& device, RunsOn runs_on, const Base& base, CalibrationReport& report) {
  const KernelSet& set = kernel_set_of(device, runs_on, base.profile);
  report.kernel_set = set.id;
  Progress progress;
  exec::CalibrationOptions options;
  options.quick = report.quick;
  options.measured = [&progress](const exec::Measurement& m) {
    progress.show("measuring: " + measurement_line(m));
  };
  report.found = exec::calibrate(device, set, options);
}

void measure_cpu(const CalibrateCommand& command, const Base& base, CalibrationReport& report) {
  exec::cpu::CpuDevice device;
  report.device = processor_name();
  measure(device, RunsOn::kCpu, base, report);
  Progress progress;
  exec::CoreOptions options;
  options.cores = exec::usable_cores();
  options.directory = command.nvme_directory;
  options.quick = report.quick;
  options.measured = [&progress](const std::string& line) { progress.show("measuring: " + line); };
  report.cores =
      exec::calibrate_cores(device, kernel_set_of(device, RunsOn::kCpu, base.profile), options);
}

// Among the GPUs of the machine, as many as the base has.
void measure_meetings(exec::Device& first, int gpus, const Base& base, CalibrationReport& report) {
  gpus = std::min(gpus, base.profile.devices_per_node);
  if (gpus < 2) return;
  Progress progress;
  exec::NodeCollectiveOptions options = exec::node_collective_options(report.quick, *report.memory);
  options.measured = [&progress](const std::string& line) { progress.show("measuring: " + line); };
  const auto open = [](int gpu) { return exec::load_cuda_device({.local_rank = gpu}); };
  measure_collectives(first, gpus, open, options, report);
}

// The plug-in goes before the driver: it sets what that one reads when it starts.
void measure_cuda(const Base& base, CalibrationReport& report) {
  exec::ContextProbe probe;
  const auto device = exec::load_cuda_device({});
  std::string why_not;
  const auto driver = exec::Driver::open(why_not);
  if (!driver) throw Error(ExitCode::kDevice, why_not);
  report.device = driver->device_name();
  report.memory = driver->memory().total;
  report.context = probe.taken(*driver, kernel_set_of(*device, RunsOn::kCuda, base.profile));
  measure(*device, RunsOn::kCuda, base, report);
  measure_meetings(*device, driver->devices(), base, report);
}

// Measures nothing.
void import_measured(const CalibrateCommand& command, const Base& base) {
  ImportReport report;
  for (const std::string& path : command.imports)
    report.files.push_back(parse_measured(read_text_file(path), path));
  const std::string profile = imported_profile(base.text, base.profile, report);
  write_answer(import_sheet(report), command.json, [&] {
    if (!command.output.empty()) write_file(command.output, profile);
  });
}

}  // namespace

ExitCode execute(const CalibrateCommand& command) {
  const Base base = load_base(command);
  std::vector<std::string> inputs = command.imports;
  if (!base.profile.file.empty()) inputs.push_back(base.profile.file);
  check_outputs({command.output}, inputs);
  if (!command.imports.empty()) {
    import_measured(command, base);
    return ExitCode::kOk;
  }
  CalibrationReport report;
  report.date = today();
  report.base = base.profile.name;
  report.quick = command.quick;
  if (command.device == DeviceChoice::kCpu)
    measure_cpu(command, base, report);
  else
    measure_cuda(base, report);
  const std::string profile = calibrated_profile(base.text, base.profile, report);
  write_answer(calibration_sheet(report), command.json, [&] {
    if (!command.output.empty()) write_file(command.output, profile);
  });
  return ExitCode::kOk;
}

}  // namespace zplan
