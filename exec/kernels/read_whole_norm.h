// The norm of several heads together reads its calls as follows, on every device, as read_model.h
// has it of other kernels.
#pragma once

#include "exec/kernels/operands.h"
#include "exec/kernels/read_head_norm.h"
#include "exec/kernels/whole_norm.h"

namespace zplan::exec {

template <typename T>
inline constexpr auto read_whole_norm_squares = [](const KernelCall& c, const auto& body) {
  body(head_norm_shape(c, c[1]),
       WholeNormSquares<T>{.x = c[0].as<T>(), .kept = c[1].as<T>(), .sums = c[2].as<Compute<T>>()});
};

template <typename T>
inline constexpr auto read_whole_norm_forward = [](const KernelCall& c, const auto& body) {
  body(head_norm_shape(c, c[1]), WholeNormForward<T>{.x = c[0].as<T>(),
                                                     .kept = c[1].as<T>(),
                                                     .sums = c[2].as<Compute<T>>(),
                                                     .gain = c[3].as<T>(),
                                                     .width = c.attributes[1],
                                                     .epsilon = epsilon_of(c.attributes[2])});
};

template <typename T>
inline constexpr auto read_whole_norm_products = [](const KernelCall& c, const auto& body) {
  body(head_norm_shape(c, c[1]), WholeNormProducts<T>{.dx = c[0].as<T>(),
                                                      .x = c[1].as<T>(),
                                                      .gain = c[2].as<T>(),
                                                      .sums = c[3].as<Compute<T>>()});
};

template <typename T>
inline constexpr auto read_whole_norm_backward = [](const KernelCall& c, const auto& body) {
  with_gradient<T>(c[5], [&]<typename G>(G* dgain) {
    body(head_norm_shape(c, c[1]),
         WholeNormBackward<T, G>{.dx = c[0].as<T>(),
                                 .dgain = dgain,
                                 .x = c[1].as<T>(),
                                 .squares = c[2].as<Compute<T>>(),
                                 .products = c[3].as<Compute<T>>(),
                                 .gain = c[4].as<T>(),
                                 .width = c.attributes[1],
                                 .epsilon = epsilon_of(c.attributes[2]),
                                 .accumulate_dgain = c[5].adds()},
         c[6]);
  });
};

}  // namespace zplan::exec
