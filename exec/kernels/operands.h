// How operands of a call are read whose type or meaning is known only at run time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/backend.h"
#include "exec/kernels/arguments.h"
#include "planner/core/error.h"

namespace zplan::exec {

inline constexpr double kFactorUnit = 1e9;  // of attributes that are factors

// Rows of tokens are s + 1 long: inputs at [i, 0..s), targets at [i, 1..s].
struct TokenRows {
  std::int64_t batch, sequence;
  const std::int32_t* data;
  const std::int32_t* inputs(std::int64_t i) const { return data + i * (sequence + 1); }
  const std::int32_t* targets(std::int64_t i) const { return inputs(i) + 1; }
};

inline TokenRows token_rows(const Operand& tokens) {
  return {tokens.shape()[0], tokens.shape()[1] - 1, tokens.as<std::int32_t>()};
}

// qkv[b, s, g, w], how many heads of queries it holds and the size of its values: g w elements are
// (a + g) d + g v.
template <typename AttentionShape>
AttentionShape attention_shape(const Operand& qkv, std::int64_t heads, std::int64_t value_dim) {
  const Shape& s = qkv.shape();
  return {s[0], s[1], heads, s[2], (s[3] - value_dim) / (heads / s[2] + 1), value_dim};
}
// The same with what has the shape of the result, [b, s, a, v].
template <typename AttentionShape>
AttentionShape attention_shape(const Operand& qkv, const Operand& out) {
  return attention_shape<AttentionShape>(qkv, out.shape()[2], out.shape()[3]);
}

inline Elements elements_of(const Operand& operand) { return {operand.data, operand.view->dtype}; }

// Calls body(G*) with a gradient of a kernel on T: of type T or, of 16-bit T, float.
template <typename T, typename Body>
void with_gradient(const Operand& gradient, const Body& body) {
  if constexpr (sizeof(T) == 2) {
    if (gradient.view->dtype == DType::kF32) return body(gradient.as<float>());
  }
  body(gradient.as<T>());
}

// What a device stores numbers of 16 bits as.
template <typename B, typename F>
struct Halves {
  using Bf16 = B;
  using Fp16 = F;
};

// Calls body(S*) with a state of a kernel set that computes in C: double, or any narrower type.
template <typename C, typename Halves, typename Body>
void with_state(const Operand& state, const Body& body) {
  if constexpr (std::is_same_v<C, double>) {
    body(state.as<double>());
  } else if (state.view->dtype == DType::kF32) {
    body(state.as<float>());
  } else if (state.view->dtype == DType::kBf16) {
    body(state.as<typename Halves::Bf16>());
  } else {
    ZPLAN_ASSERT(state.view->dtype == DType::kF16);
    body(state.as<typename Halves::Fp16>());
  }
}

}  // namespace zplan::exec
