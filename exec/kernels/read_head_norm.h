// How the norm of heads reads its calls, on every device, as read_model.h has it of other kernels.
#pragma once

#include "exec/kernels/head_norm.h"
#include "exec/kernels/operands.h"

namespace zplan::exec {

inline HeadNormShape head_norm_shape(const KernelCall& c, const Operand& kept) {
  const Shape& s = c[0].shape();
  return {.tokens = s[0] * s[1],
          .heads = s[2],
          .head_dim = s[3],
          .first = c.attributes[0],
          .normed = kept.shape()[2]};
}

template <typename T>
inline constexpr auto read_head_norm_forward = [](const KernelCall& c, const auto& body) {
  body(head_norm_shape(c, c[2]), HeadNormForward<T>{.x = c[0].as<T>(),
                                                    .kept = c[2].as<T>(),
                                                    .rstd = c[3].as<Compute<T>>(),
                                                    .gain = c[1].as<T>(),
                                                    .epsilon = epsilon_of(c.attributes[1])});
};

template <typename T>
inline constexpr auto read_head_norm_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[4], [&]<typename G>(G* dgain) {
    body(head_norm_shape(c, c[1]),
         HeadNormBackward<T, G>{.dx = c[0].as<T>(),
                                .dgain = dgain,
                                .x = c[1].as<T>(),
                                .rstd = c[2].as<Compute<T>>(),
                                .gain = c[3].as<T>(),
                                .accumulate_dgain = c[4].adds()},
         c[5]);
  });
};

}  // namespace zplan::exec
