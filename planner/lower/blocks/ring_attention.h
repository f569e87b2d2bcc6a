// Attention of a ring of context parallel ranks [Liu23 sec 3]: each has the queries, keys and
// values of its part of every sequence. Keys and values, side by side in one block, go around the
// ring, a step beside the attention to the block before them; what the blocks give is merged by its
// log-sum-exp [Milakov18]. Of R ranks, in step i rank r sees the block of rank r - i:
//
//   forward    block 0 is its own, causal; block i is half of it (stretches.h), R - 1 shifts
//   backward   the same with the final log-sum-exp; the gradients of a block follow it, adding up
//              what each rank gives, and come home after R - 1 shifts; its own rank adds them last
//
// Two blocks take turns, and two of gradients; the sum of 16-bit elements is in their statistics'
// type until all blocks have been merged.
#pragma once

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

struct Heads;

class RingAttention {
 public:
  RingAttention(const LayerMaker& maker, const Heads& heads);

  // qkv [b, s, g, w] in order of the sequences, out [b, s, a, v], lse [b, a, s].
  void forward(LayerPass& to, const View& qkv, const View& out, const View& lse) const;
  // dout and out [b, s, a, v]; dqkv [b, s, g, w] is written.
  void backward(LayerPass& to, const View& dout, const View& qkv, const View& out, const View& lse,
                const View& dqkv) const;

 private:
  View block(LayerPass& to, const char* name, std::int32_t turn) const;  // [T, e g]
  View by_group(View block) const;                                       // [b, s, g, e]
  View rows(View qkv) const;                                             // [T, w g]
  void take(LayerPass& to, const View& qkv) const;
  // The next block, beside what is done with this one.
  void pass_on(LayerPass& to, std::int32_t step) const;
  Attribute earlier(const LayerPass& to, std::int32_t step) const;

  std::int32_t ranks_;                        // R
  std::int64_t batch_, sequence_, kv_heads_;  // b, s, g
  std::int64_t first_, width_;                // columns of keys and values: first one, e g
  std::int64_t columns_;                      // w g
  DType sum_, compute_;
};

}  // namespace zplan
