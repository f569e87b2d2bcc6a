// Rows of the dispatch table: attention, fused and in separate products. Internal to exec/cuda.
#pragma once

#include <algorithm>
#include <array>

#include "exec/cuda/attention.h"
#include "exec/cuda/attention_products.h"
#include "exec/cuda/call_support.h"
#include "exec/cuda/gemm_layout.h"
#include "exec/kernels/dispatch_table.h"

namespace zplan::exec::cuda {

// With out[b, s, a, v].
inline AttentionKey attention_key(const Operand& qkv, const Operand& out, AttentionPass pass) {
  return {
      .shape = attention_shape<AttentionShape>(qkv, out), .type = qkv.view->dtype, .pass = pass};
}

// The operands but scratch, which comes last.
inline Bytes prepare_attention(const KernelCall& c, const Preparation& p, const AttentionKey& key) {
  auto alignment = static_cast<std::uint32_t>(kBufferAlignment.value);
  for (const Operand& operand : c.operands.first(c.operands.size() - 1))
    alignment = std::min(alignment, alignment_of(p.program, *operand.view));
  return p.attention.prepare(name(c.node->role), key,
                             {.alignment = alignment, .scratch = c.operands.back().view->bytes()});
}

template <typename T>
struct AttentionForwardRow {
  static AttentionKey key(const KernelCall& c) {
    return attention_key(c[0], c[1], AttentionPass::kForward);
  }
  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    return prepare_attention(c, p, key(c));
  }
  static void run(const KernelCall& c, LaneContext& lane) {
    lane.attention->run<T>(
        lane.stream, key(c),
        {.qkv = c[0].data, .out = c[1].data, .lse = c[2].as<float>(), .scratch = c[3].data});
  }
};

template <typename T>
struct AttentionBackwardRow {
  static AttentionKey key(const KernelCall& c) {
    return attention_key(c[1], c[2], AttentionPass::kBackward);
  }
  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    return prepare_attention(c, p, key(c));
  }
  static void run(const KernelCall& c, LaneContext& lane) {
    lane.attention->run<T>(lane.stream, key(c),
                           {.qkv = c[1].data,
                            .out = c[2].data,
                            .lse = c[3].as<float>(),
                            .dout = c[0].data,
                            .dqkv = c[4].data,
                            .scratch = c[5].data});
  }
};

// A product whose operands are at these places of the call; the first batch stands for all.
inline Bytes prepare_product(const KernelCall& c, const Preparation& p, const GemmShape& shape,
                             std::uint32_t a, std::uint32_t b, std::uint32_t result) {
  return p.gemm.prepare(
      name(c.node->role), shape,
      {.a = a, .b = b, .c = result, .vector = 0, .scratch = c.operands.back().view->bytes()});
}

template <typename T>
T* at(const Operand& operand, const HeadMatrix& matrix) {
  return operand.as<T>() + matrix.offset;
}

// scores = q k^T / sqrt(d)
template <typename T>
struct AttentionScoresRow {
  static AttentionProducts products(const KernelCall& c) {
    return {attention_shape<AttentionShape>(c[0], c[1].shape()[1], c.attributes[0]),
            c[0].view->dtype};
  }
  static GemmShape shape(const AttentionProducts& x) {
    return x.to_square(x.query(0, 0), x.key(0), true);
  }
  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    const AttentionProducts x = products(c);
    const std::uint32_t heads = x.heads_alignment(alignment_of(p.program, *c[0].view));
    return prepare_product(c, p, shape(x), heads, heads,
                           x.squares_alignment(alignment_of(p.program, *c[1].view)));
  }
  static void run(const KernelCall& c, LaneContext& lane) {
    const AttentionProducts x = products(c);
    x.for_batches([&](std::int64_t i, std::int64_t member) {
      lane.gemm->run(lane.stream, shape(x),
                     {.a = at<T>(c[0], x.query(i, member)),
                      .b = at<T>(c[0], x.key(i)),
                      .c = at<T>(c[1], x.square(i, member)),
                      .scratch = c[2].data});
    });
  }
};

// out = probs v
template <typename T>
struct AttentionContextRow {
  static AttentionProducts products(const KernelCall& c) {
    return {attention_shape<AttentionShape>(c[1], c[2]), c[1].view->dtype};
  }
  static GemmShape shape(const AttentionProducts& x) {
    return x.to_heads(x.value(0), x.output(0, 0), false);
  }
  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    const AttentionProducts x = products(c);
    return prepare_product(c, p, shape(x), x.squares_alignment(alignment_of(p.program, *c[0].view)),
                           x.heads_alignment(alignment_of(p.program, *c[1].view)),
                           x.heads_alignment(alignment_of(p.program, *c[2].view)));
  }
  static void run(const KernelCall& c, LaneContext& lane) {
    const AttentionProducts x = products(c);
    x.for_batches([&](std::int64_t i, std::int64_t member) {
      lane.gemm->run(lane.stream, shape(x),
                     {.a = at<T>(c[0], x.square(i, member)),
                      .b = at<T>(c[1], x.value(i)),
                      .c = at<T>(c[2], x.output(i, member)),
                      .scratch = c[3].data});
    });
  }
};

// dprobs = dout v^T
template <typename T>
struct AttentionContextGradientRow {
  static AttentionProducts products(const KernelCall& c) {
    return {attention_shape<AttentionShape>(c[1], c[0]), c[1].view->dtype};
  }
  static GemmShape shape(const AttentionProducts& x) {
    return x.to_square(x.output(0, 0), x.value(0), false);
  }
  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    const AttentionProducts x = products(c);
    return prepare_product(c, p, shape(x), x.heads_alignment(alignment_of(p.program, *c[0].view)),
                           x.heads_alignment(alignment_of(p.program, *c[1].view)),
                           x.squares_alignment(alignment_of(p.program, *c[2].view)));
  }
  static void run(const KernelCall& c, LaneContext& lane) {
    const AttentionProducts x = products(c);
    x.for_batches([&](std::int64_t i, std::int64_t member) {
      lane.gemm->run(lane.stream, shape(x),
                     {.a = at<T>(c[0], x.output(i, member)),
                      .b = at<T>(c[1], x.value(i)),
                      .c = at<T>(c[2], x.square(i, member)),
                      .scratch = c[3].data});
    });
  }
};

// dq = dscores k / sqrt(d), dk = dscores^T q / sqrt(d), dv = probs^T dout
template <typename T>
struct AttentionScoresGradientRow {
  static AttentionProducts products(const KernelCall& c) {
    return {attention_shape<AttentionShape>(c[3], c[2]), c[3].view->dtype};
  }
  static GemmShape query_shape(const AttentionProducts& x) {
    return x.to_heads(x.key(0), x.query(0, 0), true);
  }
  static GemmShape key_shape(const AttentionProducts& x, bool adds) {
    return x.to_shared(x.query(0, 0), x.key(0), true, adds);
  }
  static GemmShape value_shape(const AttentionProducts& x, bool adds) {
    return x.to_shared(x.output(0, 0), x.value(0), false, adds);
  }
  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    const AttentionProducts x = products(c);
    const auto of = [&](std::size_t i) { return alignment_of(p.program, *c[i].view); };
    const std::uint32_t squares = std::min(x.squares_alignment(of(0)), x.squares_alignment(of(1)));
    const std::uint32_t qkv = x.heads_alignment(of(3)), result = x.heads_alignment(of(4));
    Bytes most = prepare_product(c, p, query_shape(x), squares, qkv, result);
    for (const bool adds : {false, true}) {
      most = std::max(most, prepare_product(c, p, key_shape(x, adds), squares, qkv, result));
      most = std::max(most, prepare_product(c, p, value_shape(x, adds), squares,
                                            x.heads_alignment(of(2)), result));
    }
    return most;
  }
  static void run(const KernelCall& c, LaneContext& lane) {
    const AttentionProducts x = products(c);
    x.for_batches([&](std::int64_t i, std::int64_t member) {
      const bool adds = member > 0;
      const T* dscores = at<T>(c[0], x.square(i, member));
      const auto product = [&](const GemmShape& shape, const T* a, const T* b, T* result) {
        lane.gemm->run(lane.stream, shape, {.a = a, .b = b, .c = result, .scratch = c[5].data});
      };
      product(query_shape(x), dscores, at<T>(c[3], x.key(i)), at<T>(c[4], x.query(i, member)));
      product(key_shape(x, adds), dscores, at<T>(c[3], x.query(i, member)), at<T>(c[4], x.key(i)));
      product(value_shape(x, adds), at<T>(c[1], x.square(i, member)),
              at<T>(c[2], x.output(i, member)), at<T>(c[4], x.value(i)));
    });
  }
};

template <typename T>
constexpr auto attention_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      prepared<DispatchEntry, AttentionForwardRow<T>>(K::kAttentionForward),
      prepared<DispatchEntry, AttentionBackwardRow<T>>(K::kAttentionBackward),
      prepared<DispatchEntry, AttentionScoresRow<T>>(K::kAttentionScores),
      prepared<DispatchEntry, AttentionContextRow<T>>(K::kAttentionContext),
      prepared<DispatchEntry, AttentionContextGradientRow<T>>(K::kAttentionContextGradient),
      prepared<DispatchEntry, AttentionScoresGradientRow<T>>(K::kAttentionScoresGradient),
  });
}

}  // namespace zplan::exec::cuda
