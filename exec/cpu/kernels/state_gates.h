// The functions of gates and steps of mixers with a state, and their derivatives. Internal to
// exec/cpu/kernels.
#pragma once

#include <cmath>

namespace zplan::exec::cpu {

template <typename C>
C sigmoid(C x) {
  return static_cast<C>(1) / (static_cast<C>(1) + std::exp(-x));
}
template <typename C>
C silu(C x) {
  return x * sigmoid(x);
}
template <typename C>
C silu_slope(C x) {
  const C s = sigmoid(x);
  return s * (static_cast<C>(1) + x * (static_cast<C>(1) - s));
}
// log(1 + exp(x)), whose slope is sigmoid(x).
template <typename C>
C softplus(C x) {
  return std::max(x, static_cast<C>(0)) + std::log1p(std::exp(-std::abs(x)));
}

// A gradient that is written or added to.
template <typename G, typename C>
void give(G& gradient, C value, bool adds) {
  gradient = static_cast<G>(adds ? static_cast<C>(gradient) + value : value);
}

}  // namespace zplan::exec::cpu
