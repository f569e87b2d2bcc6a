// What the test program runs on: a CUDA device or, to test the program itself, the CPU as a device
// with queues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/device.h"
#include "exec/measure/driver.h"
#include "tests/support/sanitized.h"

namespace zplan::gpu {

struct Target {
  std::string name;                    // "NVIDIA H200"
  std::optional<exec::Driver> driver;  // of a CUDA device
  std::string fp32, bf16, fp16, fp8;   // kernel sets
  std::shared_ptr<exec::Device> device;

  bool is_gpu() const { return driver.has_value(); }
  // On the CPU this program is what is tested, for which some cases do in tests/run.
  bool tries_all() const { return is_gpu() || testing_support::is_everything_asked_for(); }
  std::vector<std::string> kernel_sets() const { return {fp32, bf16, fp16, fp8}; }
};

// kBroken: the CPU, where some kernels also change a byte beside their output, as tests must
// notice.
enum class TargetKind : std::uint8_t { kGpu, kQueues, kBroken };

// Nothing, with the reason, when there is no such device.
std::optional<Target> find_target(TargetKind kind, std::string& why_not);

}  // namespace zplan::gpu
