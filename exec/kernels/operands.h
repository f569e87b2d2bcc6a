// What the rows of every backend read from the operands and attributes of a call in the same way:
// the sizes that kernels take and what attributes mean. The structures are each backend's own.
// Operands and attributes stand as in planner/program/kernels/rows.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/backend.h"

namespace zplan::exec {

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

// Of tokens, the first operand, and a table of their vectors.
template <typename EmbeddingShape>
EmbeddingShape embedding_shape(const KernelCall& c, const Operand& wte) {
  const TokenRows tokens = token_rows(c[0]);
  return {.batch = tokens.batch,
          .sequence = tokens.sequence,
          .hidden = wte.shape()[1],
          .rows = wte.shape()[0],
          .first = c.attributes[0],
          .token_stride = tokens.sequence + 1};
}

// Of the pieces of a vocabulary only the first adds positions: the pieces are summed.
inline bool adds_positions(const KernelCall& c) {
  return c.operands.size() > 3 && c.attributes[0] == 0;
}

// qkv[b, s, a + 2 g, d] and how many of its heads are queries.
template <typename AttentionShape>
AttentionShape attention_shape(const Operand& qkv, std::int64_t heads) {
  const Shape& s = qkv.shape();
  return {s[0], s[1], heads, (s[2] - heads) / 2, s[3]};
}

template <typename RopeShape>
RopeShape rope_shape(const KernelCall& c) {
  const Shape& s = c[0].shape();
  return {s[0], s[1], s[2], s[3], c.attributes[0]};
}

template <typename NormShape>
NormShape norm_shape(const Operand& rows, const Operand& gain) {
  return {rows.elements() / gain.elements(), gain.elements()};
}

// Columns of logits that belong to the vocabulary, where they are a piece of it.
inline std::int64_t valid_columns(const KernelCall& c) {
  const std::int64_t columns = c[0].shape()[1], first = c.attributes[2];
  return std::clamp<std::int64_t>(c.attributes[0] - first, 0, columns);
}

// Place of element 0 in its flat unit.
inline std::int64_t flat_offset(const KernelCall& c) { return c.attributes[0]; }

// Of copies of a shard only the first counts.
inline bool is_counted(const KernelCall& c) { return c.attributes[3] == 0; }
// How many elements of sum_squares' operand count on this rank, from the first on.
inline std::int64_t counted_squares(const KernelCall& c) {
  const std::int64_t shared_from = c.attributes[1];
  if (shared_from < 0 || c.attributes[2] == 0) return c[0].elements();
  return std::clamp<std::int64_t>(shared_from - flat_offset(c), 0, c[0].elements());
}

// Which unit, layer and tile an update rounds: a 12-bit unit, a 16-bit layer and a 4-bit tile.
inline std::uint32_t rounding_place(const KernelCall& c) {
  return static_cast<std::uint32_t>(c.attributes[2] << 20 | c.env.layer << 4 | c.env.tile);
}

// Calls body(G*) with a gradient of a kernel on T: of type T or, of 16-bit T, float.
template <typename T, typename Body>
void with_gradient(const Operand& gradient, const Body& body) {
  if constexpr (sizeof(T) == 2) {
    if (gradient.view->dtype == DType::kF32) return body(gradient.as<float>());
  }
  body(gradient.as<T>());
}

}  // namespace zplan::exec
