// The attention core between the product of queries, keys and values and the projection: one fused
// kernel [Dao22], or one for each block of a ring, or products and a softmax that store the
// probabilities [Vaswani17 Eq.1]. Of one tile of one rank: a heads, g key-value heads; queries and
// keys have d elements, values v. Which keys a query sees, and what scores become, may differ from
// layer to layer.
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
  // Those of one of as many pieces.
  Heads piece(std::int64_t pieces) const {
    return {queries / pieces, keys / pieces, size, value_size};
  }
};

// What is done to scores, as the kernels' attributes have it (planner/program/kernels/rows.h).
struct AttentionScores {
  std::vector<std::int64_t> windows{0};  // of the layers in turn
  std::int64_t cap = 0;
  std::int64_t divisor = 0;
  std::int64_t slopes = 0;  // heads of the model, where scores are lowered by distance
  bool biased = false;      // by the stack's numbers for distances (embedding.h)
  bool sinks = false;
  bool both_ways = false;
  Value chosen{};  // keys of each query, [b, s, i]; none: all that it sees
};

class AttentionCore {
 public:
  AttentionCore(LayerMaker& maker, const Heads& heads, const AttentionScores& scores);

  // From qkv [T, (a + g) d + g v], of rotated queries and keys.
  void forward(LayerPass& to, const View& qkv) const;
  // The probabilities alone, again, where backward has to compute them.
  void replay(LayerPass& to, const View& qkv) const;
  void backward(LayerPass& to, const View& qkv, const View& dout, const View& dqkv) const;

  // Adds up what heads give the chosen keys, [b, s, i], over the tiles.
  void shares(LayerPass& to, const View& qkv, const View& given) const;

  // In the second part of a backward: what the first has given of the sinks' gradient.
  void take_gradients(LayerPass& to) const {
    if (sinks_) to.take_gradient(Part::kSinks, sinks_, false);
  }

  Value out() const { return out_; }
  Param sinks() const { return sinks_; }  // [a], of the model; none: there are none

 private:
  View by_group(View qkv) const;  // [T, c] as [b, s, g, c / g]
  std::int64_t window(const LayerPass& to) const;
  Attribute first_head(const LayerPass& to) const;
  std::int64_t heads_per_tile() const { return queries_ * ranks_; }
  Attributes attributes(const LayerPass& to) const;  // of the fused kernels
  Attributes softmax_attributes(const LayerPass& to) const;
  Attributes drawn_heads(const LayerPass& to) const;  // of their dropout
  View own_sinks(const LayerPass& to, View all) const;
  View sinks_gradient(LayerPass& to) const;
  void probabilities(LayerPass& to, const View& qkv) const;
  void backward_unfused(LayerPass& to, const View& qkv, const View& dout, const View& dqkv) const;
  View by_head(View out) const;  // [T, a v] as [b, s, a, v]

  Shape by_group_, by_head_, squares_;
  std::int64_t value_size_, queries_;
  std::string_view exchange_axis_;  // of context parallel ranks
  std::int64_t ranks_, tiles_;
  AttentionScores scores_;
  bool fused_, dropout_;
  std::optional<RingAttention> ring_;  // around which keys and values go
  Value out_, lse_;                    // [T, a v], [b, a, s]
  Value uncapped_;                     // [b, a, s, s]
  Value probs_, mask_, dropped_;       // [b, a, s, s]; without dropout dropped_ is probs_
  Param sinks_;
};

}  // namespace zplan
