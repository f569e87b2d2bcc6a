// How the kernels of latent_heads.h read their calls, on every device.
#pragma once

#include "exec/kernels/latent_heads.h"
#include "exec/kernels/operands.h"

namespace zplan::exec {

inline LatentHeadsShape latent_heads_shape(const KernelCall& c, const Operand& q, const Operand& kv,
                                           const Operand& rope) {
  const Shape& s = q.shape();
  const std::int64_t r = rope.shape()[2], n = s[3] - r;
  return {.batch = s[0],
          .sequence = s[1],
          .heads = s[2],
          .nope = n,
          .rope = r,
          .value = kv.shape()[3] - n,
          .theta = static_cast<double>(c.attributes[0]),
          .first = c.attributes[1]};
}

template <typename T>
inline constexpr auto read_latent_heads_forward = [](const KernelCall& c, const auto& body) {
  body(latent_heads_shape(c, c[0], c[1], c[2]),
       LatentHeadsForward<T>{
           .qkv = c[3].as<T>(), .q = c[0].as<T>(), .kv = c[1].as<T>(), .rope = c[2].as<T>()});
};

template <typename T>
inline constexpr auto read_latent_heads_backward = [](const KernelCall& c, const auto& body) {
  body(latent_heads_shape(c, c[1], c[2], c[3]),
       LatentHeadsBackward<T>{.dq = c[1].as<T>(),
                              .dkv = c[2].as<T>(),
                              .drope = c[3].as<T>(),
                              .dqkv = c[0].as<T>(),
                              .accumulate_drope = c[3].adds()});
};

}  // namespace zplan::exec
