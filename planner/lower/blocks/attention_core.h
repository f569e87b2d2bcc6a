// The attention core between the product of queries, keys and values and the projection: one fused
// kernel [Dao22], or one for each block of a ring, or products and a softmax that store the
// probabilities [Vaswani17 Eq.1]. Of one tile of one rank: a heads, g key-value heads; queries and
// keys have d elements, values v.
#pragma once

#include <optional>

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"
#include "planner/lower/blocks/ring_attention.h"

namespace zplan {

struct Heads {
  std::int64_t queries = 0;
  std::int64_t keys = 0;  // and as many of values
  std::int64_t size = 0;
  std::int64_t value_size = size;

  std::int64_t rotated() const { return queries + keys; }
  std::int64_t all() const { return queries + 2 * keys; }
  // Elements that all of them have side by side: queries, then keys, then values.
  std::int64_t width() const { return rotated() * size + keys * value_size; }
  std::int64_t out_width() const { return queries * value_size; }
};

class AttentionCore {
 public:
  AttentionCore(LayerMaker& maker, const Heads& heads);

  // From qkv [T, (a + g) d + g v], of rotated queries and keys.
  void forward(LayerPass& to, const View& qkv) const;
  // The probabilities alone, again, where backward has to compute them.
  void replay(LayerPass& to, const View& qkv) const;
  void backward(LayerPass& to, const View& qkv, const View& dout, const View& dqkv) const;

  Value out() const { return out_; }

 private:
  View by_group(View qkv) const;  // [T, c] as [b, s, g, c / g]
  void probabilities(LayerPass& to, const View& qkv) const;
  void backward_unfused(LayerPass& to, const View& qkv, const View& dout, const View& dqkv) const;
  View by_head(View out) const;  // [T, a v] as [b, s, a, v]

  Shape by_group_, by_head_, squares_;
  std::int64_t value_size_;
  bool fused_, dropout_;
  std::optional<RingAttention> ring_;  // around which keys and values go
  Value out_, lse_;                    // [T, a v], [b, a, s]
  Value probs_, mask_, dropped_;       // [b, a, s, s]; without dropout dropped_ is probs_
};

}  // namespace zplan
