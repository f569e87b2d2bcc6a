// Cross-attention: queries of a decoder's tokens, keys and values of what an encoder gives, each
// one product, the attention core over all keys, and the projection [Vaswani17 sec 3.2.3]. Both
// have as many tokens and as many heads: the products come side by side, as the core reads them.
#pragma once

#include "planner/lower/blocks/attention.h"

namespace zplan {

class CrossAttention : public Body {
 public:
  CrossAttention(LayerMaker& maker, const AttentionShape& shape);

  std::vector<Use> uses() const override { return {query_.use(), projection_.linear.use()}; }
  BodyResult result() const override { return projection_; }
  void forward(LayerPass& to, const View& x) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;

 private:
  std::int64_t width_;          // m, of the heads of one piece
  Linear query_, key_, value_;  // [h, a d] each
  Value qkv_;                   // [T, 3 m]
  AttentionCore core_;
  LastProduct projection_;  // [a d, h]
};

}  // namespace zplan
