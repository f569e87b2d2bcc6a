// The parts of the test program; each adds its rows to the report and throws only when nothing more
// can be done with the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tests/gpu/report.h"
#include "tests/gpu/target.h"

namespace zplan::gpu {

struct PartOptions {
  std::uint64_t seed = 0;
  std::string directory;  // where files of the NVMe tier may go
  std::string self;       // this program
  double seconds = 1e9;   // that a part may take; what is left out is said
  bool long_runs = false;
};

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Every kernel that the device's kernel sets declare, against the CPU in float64.
void check_kernels(const Target& target, const PartOptions& options, Report& report);
// The covering set of plans against one rank on the CPU; graphs against streams.
void check_plans(const Target& target, const PartOptions& options, Report& report);
// First steps of plans whose ranks share the device, drawn from the covering set: none stands
// still.
void check_first_steps(const Target& target, const PartOptions& options, Report& report);
// No operation changes a byte that it does not declare.
void check_canaries(const Target& target, const PartOptions& options, Report& report);
// 16-bit recipes against the same ones on the CPU.
void check_recipes(const Target& target, const PartOptions& options, Report& report);
// Device memory in use against slab and reserve. Needs a GPU.
void check_memory(const Target& target, const PartOptions& options, Report& report);
// What check_memory starts as another process: trains and stops where it may be looked at.
void hold_memory(const Target& target, const std::string& what);
// Kernels against the rates of copies and matrix products.
void measure_kernels(const Target& target, const PartOptions& options, Report& report);
// Training steps of whole models, beside PyTorch. Needs a GPU.
void measure_steps(const Target& target, const PartOptions& options, Report& report);

}  // namespace zplan::gpu
