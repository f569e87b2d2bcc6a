#include <exception>
#include <memory>
#include <vector>

#include "planner/cli/calibrate/calibration_report.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

void measure_collectives(exec::Device& first, int gpus,
                         const std::function<std::shared_ptr<exec::Device>(int)>& open,
                         const exec::NodeCollectiveOptions& options, CalibrationReport& report) {
  if (!first.has_comm()) {
    report.no_collectives = "the CUDA plug-in was built without NCCL";
    return;
  }
  try {
    std::vector<std::shared_ptr<exec::Device>> others;
    std::vector<exec::Device*> devices{&first};
    for (int i = 1; i < gpus; ++i) devices.push_back(others.emplace_back(open(i)).get());
    report.collectives =
        exec::measure_node_collectives(devices, find_kernel_set(report.kernel_set), options);
  } catch (const std::exception& error) {
    report.no_collectives = error.what();
  }
}

}  // namespace zplan
