#include "exec/cuda/kernels/adamw.cuh"

#include "exec/cuda/kernels/adamw.h"
#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {
namespace {

// Calls body(T{}) with the type of states.
template <typename Body>
void with_state_type(DType type, const Body& body) {
  switch (type) {
    case DType::kF32:
      return body(float{});
    case DType::kBf16:
      return body(__nv_bfloat16{});
    case DType::kF16:
      return body(__half{});
    case DType::kF64:
    case DType::kI32:
    case DType::kU8:
      break;
  }
  ZPLAN_ASSERT(false);
}

template <typename P, typename S, typename G>
void update_states(cudaStream_t stream, const Adamw& x) {
  constexpr int kWidest = 4;  // 16 bytes of float; more would take too many registers
  const bool has_param = x.param.data != nullptr && x.param.data != x.master.data;
  const AdamwStates<P, S, G> states{
      static_cast<P*>(x.master.data),
      static_cast<S*>(x.m.data),
      static_cast<S*>(x.v.data),
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
  const bool wide =
      is_aligned({x.master.data, x.m.data, x.v.data, x.grad.data, states.param.data}) &&
      x.flat_offset % 2 == 0;
  with_width<kWidest>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "adamw", grid_of(x.n, w), adamw_kernel<P, S, G, w>, states);
  });
}

}  // namespace

void adamw(cudaStream_t stream, const Adamw& x) {
  ZPLAN_ASSERT(x.m.type == x.v.type);
  with_state_type(x.master.type, [&](auto master) {
    with_state_type(x.m.type, [&](auto moment) {
      with_state_type(x.grad.type, [&](auto grad) {
        update_states<decltype(master), decltype(moment), decltype(grad)>(stream, x);
      });
    });
  });
}

}  // namespace zplan::exec::cuda
