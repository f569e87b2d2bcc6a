// What a device does best in this run, on operands too large for caches: the yardsticks of the
// speed parts.
#pragma once

#include <random>

#include "planner/program/kernels/kernel_set.h"
#include "tests/gpu/case_list.h"
#include "tests/gpu/target.h"

namespace zplan::gpu {

struct Rates {
  double copy = 0;       // bytes/s, read and written, of a copy on the device
  double product = 0;    // flop/s of the fastest matrix product
  double attention = 0;  // flop/s of forward and backward together
};

double launch_seconds(CaseRun& run);  // of one launch, back to back
Rates measure_rates(const Target& target, const KernelSet& set, std::mt19937_64& random);

}  // namespace zplan::gpu
