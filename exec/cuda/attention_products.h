// The products of attention that stores its probabilities [Vaswani17 Eq.1], over the whole square,
// masked or not. Letters and layouts: exec/cpu/kernels/attention.h; group = a / g.
// Of each sequence and each member of the groups one batched product over the g key-value heads,
// whose members of that number lie equally far apart: b (a / g) of them. Where a group shares keys
// and values their gradients are added up member by member.
#pragma once

#include <cstdint>
#include <numeric>

#include "exec/cuda/gemm.h"
#include "exec/cuda/kernels/attention_kernels.h"

namespace zplan::exec::cuda {

// Elements before the first head of a batch, by what holds it: queries, keys, values, the output
// and squares. Leading dimension and distance of the heads of a batch; columns of one.
struct HeadMatrix {
  std::int64_t offset, row, step, columns;
};

class AttentionProducts {
 public:
  AttentionProducts(const AttentionShape& shape, DType type) : s_(shape), type_(type) {}

  HeadMatrix query(std::int64_t i, std::int64_t member) const {
    return {i * qkv() + member * s_.head_dim, s_.columns(), s_.group() * s_.head_dim, s_.head_dim};
  }
  HeadMatrix key(std::int64_t i) const {
    return {i * qkv() + s_.keys(), s_.columns(), s_.head_dim, s_.head_dim};
  }
  HeadMatrix value(std::int64_t i) const {
    return {i * qkv() + s_.values(), s_.columns(), s_.value_dim, s_.value_dim};
  }
  HeadMatrix output(std::int64_t i, std::int64_t member) const {
    const std::int64_t v = s_.value_dim, row = s_.heads * v;
    return {i * s_.sequence * row + member * v, row, s_.group() * v, v};
  }
  HeadMatrix square(std::int64_t i, std::int64_t member) const {
    const std::int64_t size = s_.sequence * s_.sequence;
    return {(i * s_.heads + member) * size, s_.sequence, s_.group() * size, s_.sequence};
  }

  // square = queries or outputs times keys or values
  GemmShape to_square(const HeadMatrix& heads, const HeadMatrix& shared, bool scaled) const {
    return made(GemmOp::kNT, s_.sequence, shared.columns, heads, shared, square(0, 0), scaled);
  }
  // queries or outputs = square times keys or values
  GemmShape to_heads(const HeadMatrix& shared, const HeadMatrix& heads, bool scaled) const {
    return made(GemmOp::kNN, heads.columns, s_.sequence, square(0, 0), shared, heads, scaled);
  }
  // keys or values, of all members together = square transposed times queries or outputs
  GemmShape to_shared(const HeadMatrix& heads, const HeadMatrix& shared, bool scaled,
                      bool adds) const {
    GemmShape shape =
        made(GemmOp::kTN, shared.columns, s_.sequence, square(0, 0), heads, shared, scaled);
    shape.accumulate = adds;
    return shape;
  }

  // Calls body(sequence, member of the groups).
  template <typename Body>
  void for_batches(const Body& body) const {
    for (std::int64_t i = 0; i < s_.batch; ++i)
      for (std::int64_t member = 0; member < s_.group(); ++member) body(i, member);
  }

  // Bytes that divide all addresses of heads, and of squares.
  std::uint32_t heads_alignment(std::uint32_t of_buffer) const {
    return common(of_buffer, std::gcd(s_.head_dim, s_.value_dim));
  }
  std::uint32_t squares_alignment(std::uint32_t of_buffer) const {
    return common(of_buffer, s_.sequence * s_.sequence);
  }

 private:
  std::int64_t qkv() const { return s_.sequence * s_.columns(); }
  std::uint32_t common(std::uint32_t of_buffer, std::int64_t elements) const {
    return static_cast<std::uint32_t>(
        std::gcd(std::int64_t{of_buffer}, (size_of(type_) * elements).value));
  }
  GemmShape made(GemmOp op, std::int64_t n, std::int64_t k, const HeadMatrix& a,
                 const HeadMatrix& b, const HeadMatrix& c, bool scaled) const {
    return {.op = op,
            .m = s_.sequence,
            .n = n,
            .k = k,
            .type = type_,
            .result = type_,
            .batch = s_.kv_heads,
            .a = {a.row, a.step},
            .b = {b.row, b.step},
            .c = {c.row, c.step},
            .root = scaled ? s_.head_dim : 1};
  }

  AttentionShape s_;
  DType type_;
};

}  // namespace zplan::exec::cuda
