// The attention core of a layer between the product of queries, keys and values and the projection:
// one fused kernel [Dao22], or products and a softmax that store the probabilities [Vaswani17
// Eq.1]. Of one tile of one rank: a heads, g key-value heads, n = a + 2 g.
#pragma once

#include "planner/lower/activations.h"
#include "planner/lower/stage.h"

namespace zplan {

class AttentionCore {
 public:
  explicit AttentionCore(Stage& stage) : s_(stage) {}

  void rotate(Phase phase, const LayerActivations& a) { rotate(phase, a.qkv, 1); }
  void forward(Phase phase, const LayerActivations& a);  // of rotated queries and keys
  // The probabilities alone, again.
  void replay_probabilities(const LayerActivations& a);
  // From the gradient of the output to that of the product: dqkv, before rotation.
  void backward(const LayerActivations& a, const View& dattention, const View& dqkv);

 private:
  void probabilities(Phase phase, const LayerActivations& a);
  void rotate(Phase phase, const View& qkv, std::int64_t direction);
  View heads(View qkv) const;   // [T, c] as [b, s, n, d]
  View output(View out) const;  // [T, a d] as [b, s, a, d]

  Stage& s_;
};

}  // namespace zplan
