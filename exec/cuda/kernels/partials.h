// Sums over a whole array in double: each block leaves one partial sum, then one block adds them in
// an order set by their number alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace zplan::exec::cuda {

// *sum += scale times the sum of partials [n].
void add_partials(cudaStream_t stream, double* sum, const double* partials, std::int64_t n,
                  double scale);

}  // namespace zplan::exec::cuda
