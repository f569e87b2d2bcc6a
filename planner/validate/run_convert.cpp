#include "planner/validate/run_convert.h"

#include <algorithm>

#include "planner/validate/run_stack.h"

namespace zplan {

// Software that is a guess stays one.
RunRecord converted(RunRecord run, const RunCatalogues& catalogues) {
  if (run.second_form) return run;
  const auto& devices = catalogues.hardware.devices;
  const auto device = std::ranges::find(devices, run.hardware.device, &DeviceFacts::id);
  if (device != devices.end()) {
    const RunStack found = stack_of(run, *device, catalogues.stacks);
    if (found.stated) run.software.name = found.stack->name;
  }
  run.software.cited.clear();
  run.second_form = true;
  return run;
}

}  // namespace zplan
