// Calls of kernels whose times describe the cores of a host: a grid of the sizes that layers of
// models up to about a billion parameters have there.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/measure/kernel_case.h"

namespace zplan::exec {

struct CoreCase {
  Case call;
  int threads = 1;
  // As the tables of a profile name it: m, n, k of a product; batch x heads x sequence, sequence,
  // head size of attention; else bytes, 1, 1.
  std::array<std::int64_t, 3> sizes{1, 1, 1};
  // Of the first operands, how many the operation before has left in the caches: [assumed] of
  // products and attention the activations that come in, of kernels between them all, of those that
  // pass over parameters and gradients none.
  std::size_t warm = 0;
};

// Threads: 1 and, where there are more, all `cores`. `quick`: few and small ones.
std::vector<CoreCase> core_cases(const KernelSet& set, int cores, bool quick);

}  // namespace zplan::exec
