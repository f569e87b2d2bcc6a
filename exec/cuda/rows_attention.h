// Rows of the dispatch table: attention. Internal to exec/cuda.
#pragma once

#include <algorithm>

#include "exec/cuda/attention.h"
#include "exec/cuda/dispatch.h"
#include "exec/cuda/gemm_layout.h"

namespace zplan::exec::cuda {

// qkv[b, s, a + 2 g, d] and out[b, s, a, d].
inline AttentionKey attention_key(const Operand& qkv, const Operand& out, AttentionPass pass) {
  const Shape& s = qkv.shape();
  const std::int64_t heads = out.shape()[2];
  return {.shape = {s[0], s[1], heads, (s[2] - heads) / 2, s[3]},
          .type = qkv.view->dtype,
          .pass = pass};
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

}  // namespace zplan::exec::cuda
