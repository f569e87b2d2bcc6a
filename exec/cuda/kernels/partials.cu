#include "exec/cuda/kernels/partials.h"

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/partials.cuh"

namespace zplan::exec::cuda {

void add_partials(cudaStream_t stream, double* sum, const double* partials, std::int64_t n,
                  double scale) {
  launch(stream, "add_partials", Grid{1, threads_for(n)}, add_partials_kernel, sum, partials, n,
         scale);
}

}  // namespace zplan::exec::cuda
