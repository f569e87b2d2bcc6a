#include "exec/cuda/kernels/sinks.cuh"

#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {

template <typename T>
void sinks_forward(cudaStream_t stream, const SinksShape& s, const SinksForward<T>& x) {
  launch(stream, "sinks_forward", grid_of_rows(s.batch * s.sequence * s.heads, s.value_dim, 1),
         sinks_forward_kernel<T>, x, s);
}

template <typename T, typename G>
void sinks_backward(cudaStream_t stream, const SinksShape& s, const SinksBackward<T, G>& x) {
  launch(stream, "sinks_backward", grid_of_rows(s.heads, s.batch * s.sequence * s.value_dim, 1),
         sinks_backward_kernel<T, G>, x, s);
}

#define ZPLAN_INSTANTIATE(T) \
  template void sinks_forward<T>(cudaStream_t, const SinksShape&, const SinksForward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void sinks_backward<T, G>(cudaStream_t, const SinksShape&, const SinksBackward<T, G>&);
ZPLAN_FOR_CUDA_GRADIENTS(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
