// Layer normalisation over the hidden dimension: y = (x - mean) rstd gain + bias,
// rstd = 1 / sqrt(variance + eps), variance over h (biased). [Ba16], eps of GPT-2 [Radford19]
// Left out: RMSNorm, fusion with the residual.
#pragma once

#include <cstdint>

namespace zplan::exec::cpu {

inline constexpr double kLayernormEps = 1e-5;

struct LayernormShape {
  std::int64_t tokens, hidden;
};

template <typename T>
struct LayernormForward {
  T* y;     // [T, h], overwritten
  T* mean;  // [T], overwritten, kept for backward
  T* rstd;  // [T], overwritten, kept for backward
  const T* x;
  const T* gain;  // [h]
  const T* bias;  // [h]
};

template <typename T>
struct LayernormBackward {
  T* dx;     // [T, h]
  T* dgain;  // [h]
  T* dbias;  // [h]
  const T* dy;
  const T* x;
  const T* mean;
  const T* rstd;
  const T* gain;
  bool accumulate_dx;          // false overwrites, true adds
  bool accumulate_parameters;  // the same for dgain and dbias
};

// 8 T h flop; x read three times from cache, once from memory, y written once.
template <typename T>
void layernorm_forward(const LayernormShape& shape, const LayernormForward<T>& x);

// With n = (x - mean) rstd and g = dy gain: dx = rstd (g - mean(g) - n mean(g n)),
// dgain = sum dy n, dbias = sum dy. 14 T h flop; dy and x read twice, dx written once.
template <typename T>
void layernorm_backward(const LayernormShape& shape, const LayernormBackward<T>& x);

}  // namespace zplan::exec::cpu
