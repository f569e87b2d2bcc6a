// The CUDA plug-in of the tests (exec/cuda_plugin.h): exec/cuda on a stand-in GPU of the process, a
// node's 8 devices. Processes of a job, as torchrun names them, meet by the stand-in's NCCL. Each
// leaves FOLDER/RANK of ZPLAN_STAND_IN_REPORT=FOLDER behind: what ran, and a line for each finding.
#include "exec/cuda/plugin.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "exec/interface_hash.h"
#include "tests/support/gpu/judged_device.h"
#include "tests/support/gpu/stand_in.h"

namespace zplan::stand_in {
namespace {

constexpr int kDevices = 8;

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

Options options_of_process() {
  Options options;
  options.devices = kDevices;
  options.process = std::stoul(variable("RANK", "0"));
  options.processes = std::stoul(variable("WORLD_SIZE", "1"));
  return options;
}

class ReportedStandIn {
 public:
  ReportedStandIn() = default;
  ~ReportedStandIn() {
    const std::string folder = variable("ZPLAN_STAND_IN_REPORT", "");
    if (folder.empty()) return;
    std::ofstream file(folder + "/" + variable("RANK", "0"));
    file << fmt::format("{} tasks, {} meetings, {} launches\n", gpu_.tasks(), gpu_.collectives(),
                        gpu_.launches());
    for (const std::string& finding : gpu_.close()) file << finding << '\n';
  }
  ReportedStandIn(const ReportedStandIn&) = delete;
  ReportedStandIn& operator=(const ReportedStandIn&) = delete;

 private:
  StandIn gpu_{options_of_process()};
};

}  // namespace
}  // namespace zplan::stand_in

const char* zplan_cuda_interface() { return zplan::exec::interface_hash(); }

zplan::exec::Device* zplan_make_cuda_device(const zplan::exec::CudaDeviceOptions& options) {
  using namespace zplan::stand_in;
  const auto gpu = std::make_shared<ReportedStandIn>();
  return make_judged_device(options.local_rank, gpu).release();
}
