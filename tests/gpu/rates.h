// What a device does best in this run, on operands too large for caches: the yardsticks of the
// speed parts.
#pragma once

#include <random>

#include "planner/program/kernel_set.h"
#include "tests/gpu/kernel_case.h"
#include "tests/gpu/target.h"

namespace zplan::gpu {

inline constexpr int kTimedLaunches = 20;  // back to back, by the wall clock

struct Rates {
  double copy = 0;       // bytes/s, read and written, of a copy on the device
  double product = 0;    // flop/s of the fastest matrix product
  double attention = 0;  // flop/s of forward and backward together
};

Demand demand_of_case(const Case& c, const KernelSet& set);
Rates measure_rates(const Target& target, const KernelSet& set, std::mt19937_64& random);

}  // namespace zplan::gpu
