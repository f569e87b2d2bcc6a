#include "planner/cli/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

// "MemAvailable:   12345 kB" of /proc/meminfo, in KiB whatever it says.
Bytes available_memory() {
  constexpr std::int64_t kKi = 1024;
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::int64_t number = 0;
  std::string rest;
  while (in >> key >> number && std::getline(in, rest)) {
    if (key == "MemAvailable:") return Bytes{number * kKi};
  }
  throw Error(ExitCode::kDevice, "/proc/meminfo does not say how much memory is free");
}

}  // namespace

Plan runnable_plan(const RunCommand& command) {
  Plan plan = load_plan(command.plan);
  if (!find_kernel_set(plan.kernel_set).runs_on_cpu) {
    throw_bad_input(fmt::format(
        "{}: kernel set {} does not run on a CPU; pin --kernel-set cpu.f32 or plan for CPUs: zplan "
        "plan --model tiny-gpt --cluster workstation -o plan.json",
        command.plan, plan.kernel_set));
  }
  if (!command.dtype.empty()) {
    plan.kernel_set = "cpu." + command.dtype;
    plan.precision = default_recipe(plan.kernel_set);
  }
  return plan;
}

Plan reference_plan(const Plan& plan) {
  Plan reference = plan;
  reference.parallel = {};
  reference.zero_stage = 0;
  reference.placement = {};
  reference.recompute = Recompute::kNone;
  return reference;
}

void require_memory(const std::vector<const Job*>& jobs) {
  Bytes needed{0};
  for (const Job* job : jobs) {
    for (const RankClass& c : job->classes) {
      for (const Bytes slab : c.placement.slab) needed += slab * job->dp;
    }
  }
  const Bytes available = available_memory();
  if (needed <= available) return;
  throw Error(ExitCode::kDevice, fmt::format("this machine has {} of free memory, the run needs {}",
                                             format_bytes(available), format_bytes(needed)));
}

}  // namespace zplan
