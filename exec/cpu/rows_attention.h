// Rows of the dispatch table: attention, fused and not, and rotary positions. Internal to exec/cpu.
#pragma once

#include <algorithm>
#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/attention_unfused.h"
#include "exec/cpu/kernels/block_attention.h"
#include "exec/cpu/kernels/columns.h"
#include "exec/cpu/kernels/latent_heads.h"
#include "exec/cpu/kernels/rope.h"
#include "exec/cpu/kernels/sinks.h"
#include "exec/kernels/dispatch_table.h"
#include "exec/kernels/read_latent_heads.h"
#include "exec/kernels/read_model.h"

namespace zplan::exec::cpu {

// Of the fused kernels.
inline AttentionRule attention_rule(const Call& c) {
  const AttributeValues& x = c.attributes;
  return {.window = x[0],
          .cap = static_cast<double>(x[1]),
          .divisor = x[2],
          .slopes = x[3],
          .first_head = x[4] + c.env.tile * x[6],
          .both_ways = x[5] != 0};
}

inline AttentionShape with_rule(AttentionShape shape, const AttentionRule& rule) {
  shape.rule = rule;
  return shape;
}

// Attention under the rule of its attributes, plain or biased: forward reads qkv first and writes
// operand kOut, backward reads dout and qkv first. Room for one thread is enough; more threads use
// what else there is.
template <typename T, int kOut>
struct RuledForward {
  static AttentionShape shape(const Call& c) {
    return with_rule(attention_shape<AttentionShape>(c[0], c[kOut]), attention_rule(c));
  }
  static Bytes prepare(const Call& c, GemmCache&) {
    return attention_forward_scratch_bytes<T>(shape(c), 1);
  }
};
template <typename T>
struct RuledBackward {
  static AttentionShape shape(const Call& c) {
    return with_rule(attention_shape<AttentionShape>(c[1], c[0]), attention_rule(c));
  }
  static Bytes prepare(const Call& c, GemmCache&) {
    return attention_backward_scratch_bytes<T>(shape(c), 1);
  }
};

template <typename T>
struct AttentionForwardRow : RuledForward<T, 1> {
  static void run(const Call& c, GemmCache&) {
    attention_forward<T>(RuledForward<T, 1>::shape(c),
                         {.out = c[1].as<T>(), .lse = c[2].as<Compute<T>>(), .qkv = c[0].as<T>()},
                         scratch(c[3]));
  }
};

template <typename T>
struct AttentionBackwardRow : RuledBackward<T> {
  static void run(const Call& c, GemmCache&) {
    attention_backward<T>(RuledBackward<T>::shape(c),
                          {.dqkv = c[4].as<T>(),
                           .dout = c[0].as<T>(),
                           .out = c[2].as<T>(),
                           .lse = c[3].as<Compute<T>>(),
                           .qkv = c[1].as<T>()},
                          scratch(c[5]));
  }
};

template <typename T>
struct BlockAttentionForwardRow {
  static AttentionShape shape(const Call& c) { return attention_shape<AttentionShape>(c[0], c[2]); }
  static Bytes prepare(const Call& c, GemmCache&) {
    return attention_forward_scratch_bytes<T>(shape(c), 1);
  }
  static void run(const Call& c, GemmCache&) {
    block_attention_forward<T>(shape(c),
                               {.out = c[2].as<Compute<T>>(),
                                .lse = c[3].as<Compute<T>>(),
                                .qkv = c[0].as<T>(),
                                .kv = c[1].as<T>(),
                                .earlier = c.attributes[0] >= 0},
                               scratch(c[4]));
  }
};

template <typename T>
struct BlockAttentionBackwardRow {
  static AttentionShape shape(const Call& c) { return attention_shape<AttentionShape>(c[1], c[0]); }
  static Bytes prepare(const Call& c, GemmCache&) {
    return attention_backward_scratch_bytes<T>(shape(c), 1);
  }
  static void run(const Call& c, GemmCache&) {
    block_attention_backward<T>(shape(c),
                                {.dqkv = c[5].as<T>(),
                                 .dkv = c[6].as<T>(),
                                 .dout = c[0].as<T>(),
                                 .out = c[3].as<T>(),
                                 .lse = c[4].as<Compute<T>>(),
                                 .qkv = c[1].as<T>(),
                                 .kv = c[2].as<T>(),
                                 .earlier = c.attributes[0] >= 0},
                                scratch(c[7]));
  }
};

template <typename T>
struct AttentionScoresRow {
  static AttentionShape shape(const Call& c) {
    return with_rule(attention_shape<AttentionShape>(c[0], c[1].shape()[1], c.attributes[0]),
                     {.divisor = c.attributes[1]});
  }
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, attention_scores_gemm(shape(c)));
  }
  static void run(const Call& c, GemmCache& gemm) {
    attention_scores<T>(gemm, shape(c), c[1].as<T>(), c[0].as<T>(), scratch(c[2]));
  }
};

template <typename T>
struct AttentionContextRow {
  static AttentionShape shape(const Call& c) { return attention_shape<AttentionShape>(c[1], c[2]); }
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, attention_context_gemm(shape(c)));
  }
  static void run(const Call& c, GemmCache& gemm) {
    attention_context<T>(gemm, shape(c), c[2].as<T>(), c[0].as<T>(), c[1].as<T>(), scratch(c[3]));
  }
};

template <typename T>
struct AttentionContextGradientRow {
  static AttentionShape shape(const Call& c) { return attention_shape<AttentionShape>(c[1], c[0]); }
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, attention_context_gradient_gemm(shape(c)));
  }
  static void run(const Call& c, GemmCache& gemm) {
    attention_context_gradient<T>(gemm, shape(c), c[2].as<T>(), c[0].as<T>(), c[1].as<T>(),
                                  scratch(c[3]));
  }
};

template <typename T>
struct AttentionScoresGradientRow {
  static AttentionShape shape(const Call& c) {
    return with_rule(attention_shape<AttentionShape>(c[3], c[2]), {.divisor = c.attributes[0]});
  }
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    Bytes most = prepare_gemm<T>(gemm, attention_query_gradient_gemm(shape(c)));
    for (const bool adds : {false, true}) {
      most = std::max(most, prepare_gemm<T>(gemm, attention_key_gradient_gemm(shape(c), adds)));
      most = std::max(most, prepare_gemm<T>(gemm, attention_value_gradient_gemm(shape(c), adds)));
    }
    return most;
  }
  static void run(const Call& c, GemmCache& gemm) {
    attention_scores_gradient<T>(gemm, shape(c),
                                 {.dqkv = c[4].as<T>(),
                                  .dscores = c[0].as<T>(),
                                  .probs = c[1].as<T>(),
                                  .dout = c[2].as<T>(),
                                  .qkv = c[3].as<T>()},
                                 scratch(c[5]));
  }
};

// Some columns of x [T, h], from the one that the attribute says: the other operand is [T, n].
inline ColumnRange column_range(const Call& c, const Shape& whole, const Shape& part) {
  return {whole[0], whole[1], c.attributes[0], part[1]};
}

template <typename T>
inline constexpr auto read_take_columns = [](const KernelCall& c, const auto& body) {
  body(column_range(c, c[0].shape(), c[1].shape()), c[1].as<T>(), c[0].as<T>());
};
template <typename T>
inline constexpr auto read_add_columns = [](const KernelCall& c, const auto& body) {
  body(column_range(c, c[1].shape(), c[0].shape()), c[1].as<T>(), c[0].as<T>());
};

template <typename T>
struct SoftmaxForwardRow {
  static void run(const Call& c, GemmCache&) {
    const AttributeValues& x = c.attributes;
    softmax_forward<T>(square_rows(c[0]), c[0].as<T>(),
                       {.heads = c[0].shape()[1],
                        .rule = {.window = x[0],
                                 .slopes = x[1],
                                 .first_head = x[2] + c.env.tile * x[4],
                                 .both_ways = x[3] != 0},
                        .sinks = c.operands.size() > 1 ? c[1].as<T>() : nullptr});
  }
};

template <typename T>
struct SoftmaxBackwardRow {
  static void run(const Call& c, GemmCache&) {
    const SquareRows squares = square_rows(c[0]);
    if (c.operands.size() > 2)
      with_gradient<T>(c[2], [&](auto* dsinks) {
        sinks_gradient(squares, c[0].shape()[1], dsinks, c[1].as<T>(), c[0].as<T>(), c[2].adds());
      });
    softmax_backward<T>(squares, c[1].as<T>(), c[0].as<T>(), {.both_ways = c.attributes[0] != 0});
  }
};

template <typename T>
constexpr auto attention_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      prepared<DispatchEntry, AttentionForwardRow<T>>(K::kAttentionForward),
      prepared<DispatchEntry, AttentionBackwardRow<T>>(K::kAttentionBackward),
      prepared<DispatchEntry, BlockAttentionForwardRow<T>>(K::kBlockAttentionForward),
      prepared<DispatchEntry, BlockAttentionBackwardRow<T>>(K::kBlockAttentionBackward),
      prepared<DispatchEntry, AttentionScoresRow<T>>(K::kAttentionScores),
      prepared<DispatchEntry, AttentionContextRow<T>>(K::kAttentionContext),
      prepared<DispatchEntry, AttentionContextGradientRow<T>>(K::kAttentionContextGradient),
      prepared<DispatchEntry, AttentionScoresGradientRow<T>>(K::kAttentionScoresGradient),
      DispatchEntry{K::kSoftmaxForward, nullptr, SoftmaxForwardRow<T>::run},
      DispatchEntry{K::kSoftmaxBackward, nullptr, SoftmaxBackwardRow<T>::run},
      row(K::kSinksForward, read_sinks_forward<T>, [](const auto&... x) { sinks_forward(x...); }),
      row(K::kSinksBackward, read_sinks_backward<T>,
          [](const auto& shape, const auto& x, const Operand&) { sinks_backward(shape, x); }),
      row(K::kLatentHeadsForward, read_latent_heads_forward<T>,
          [](const auto&... x) { latent_heads_forward(x...); }),
      row(K::kLatentHeadsBackward, read_latent_heads_backward<T>,
          [](const auto&... x) { latent_heads_backward(x...); }),
      row(K::kTakeColumns, read_take_columns<T>, [](auto... x) { take_columns(x...); }),
      row(K::kAddColumns, read_add_columns<T>, [](auto... x) { add_columns(x...); }),
      row(K::kRope, read_rope<T>, [](auto... x) { rope(x...); }),
  });
}

}  // namespace zplan::exec::cpu
