#include "exec/cuda/kernels/sgd.cuh"

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/sgd.h"
#include "exec/cuda/kernels/state_types.h"

namespace zplan::exec::cuda {
namespace {

template <typename P, typename S, typename G>
void descend_states(cudaStream_t stream, const Sgd& x) {
  constexpr int kWidest = 4;  // 16 bytes of float
  const bool has_param = x.param.data != nullptr && x.param.data != x.master.data;
  const SgdStates<P, S, G> states{
      static_cast<P*>(x.master.data),
      static_cast<S*>(x.m.data),
      static_cast<const G*>(x.grad.data),
      has_param ? x.param : Elements{nullptr, x.master.type},
      x.scalars,
      x.clip,
      x.n,
      x.flat_offset,
      x.decay_elements,
      x.key[0],
      x.key[1],
      x.place,
  };
  const bool wide = is_aligned({x.master.data, x.m.data, x.grad.data, states.param.data}) &&
                    x.flat_offset % 2 == 0;
  with_width<kWidest>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "sgd", grid_of(x.n, w), sgd_kernel<P, S, G, w>, states);
  });
}

}  // namespace

void sgd(cudaStream_t stream, const Sgd& x) {
  with_state_type(x.master.type, [&](auto master) {
    with_state_type(x.m.type, [&](auto moment) {
      with_state_type(x.grad.type, [&](auto grad) {
        descend_states<decltype(master), decltype(moment), decltype(grad)>(stream, x);
      });
    });
  });
}

}  // namespace zplan::exec::cuda
