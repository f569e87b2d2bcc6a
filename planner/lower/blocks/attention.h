// Self-attention: one product gives queries, keys and values, of which the former two may be
// normalised by head or over all heads and rotated, the attention core follows and the projection
// ends it [Vaswani17 sec 3.2]. With fewer heads of keys and values than of queries a group of these
// shares each. All but the products is inside of what context parallel ranks exchange
// (exchanged_core.h).
#pragma once

#include <optional>

#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/column_factors.h"
#include "planner/lower/blocks/exchanged_core.h"
#include "planner/lower/blocks/head_norm.h"
#include "planner/lower/blocks/rope.h"
#include "planner/lower/blocks/whole_norm.h"

namespace zplan {

struct AttentionShape {
  Heads heads;  // of the model
  bool qk_norm = false;
  bool whole_qk_norm = false;  // over all heads together
  std::int64_t norm_epsilon = kUsualNormEpsilon;
  // The layers take these in turn; one without a base rotates no heads. None: no layer does.
  std::vector<RopeShape> ropes{};
  AttentionScores scores{};
  bool qkv_bias = false;
  bool projection_bias = false;
  bool gate = false;        // of what it gives (layer_features.h)
  PartFactors factors{};    // of the columns of queries, keys and values
  bool ends_layer = false;  // no more of the layer follows, for which the projection is replayed
};

// A gate of what attention gives: its product, and what the projection reads.
struct AttentionGate {
  AttentionGate(LayerMaker& maker, const Heads& heads);

  Linear linear;        // [h, a d]
  Value gate, gated{};  // [T, a d] each
};

class SelfAttention : public Body {
 public:
  SelfAttention(LayerMaker& maker, const AttentionShape& shape);

  std::vector<Use> uses() const override { return {qkv_.use(), projection_.linear.use()}; }
  std::vector<Use> all_uses() const override;
  BodyResult result() const override { return projection_; }
  void forward(LayerPass& to, const View& x) const override;
  void backward_before_tiles(LayerPass& to) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;
  void backward_after_tiles(LayerPass& to, const View& x, const View& dx) const override;

 private:
  View by_head(View qkv) const;         // inside, [b, s, n, d]
  View projected(LayerPass& to) const;  // what the projection reads
  View gate_backward(LayerPass& to, const View& dgated, const View& dattention) const;
  const Rope* rope(const LayerPass& to) const;

  std::vector<Rope> ropes_;
  Linear qkv_;  // [h, c], c = (a + 2 g) d
  ColumnFactors factors_;
  std::optional<AttentionGate> gate_;
  ExchangedCore core_;
  Shape by_head_;
  std::vector<HeadNorm> norms_;  // of queries and of keys, or none
  std::optional<WholeNorm> whole_norm_;
  LastProduct projection_;  // [a d, h]
};

}  // namespace zplan
