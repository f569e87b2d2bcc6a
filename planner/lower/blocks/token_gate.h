// A gate of each token: the sigmoid of its product with a vector, by which what an MLP gives is
// multiplied [Transformers models/qwen2_moe/modeling_qwen2_moe.py]. It multiplies what stands
// before the last product, which comes to the same as there is no bias behind it, and to no
// further tensor that is kept. Each tensor parallel rank has the vector and the gates of all
// tokens, and of their gradients the part that its columns give.
#pragma once

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

class TokenGate {
 public:
  // `op`: the operator with whose replay it comes again.
  TokenGate(LayerMaker& maker, OperatorSet of);

  // The gates of x [T, h].
  void forward(LayerPass& to, const View& x) const;
  // y [T, f] becomes what passes.
  void pass(LayerPass& to, const View& y) const;
  // Turns the gradient dy of that into the gradient of what came in, in its place, and gives dx its
  // part, which is written or added to as its access says.
  void backward(LayerPass& to, const View& x, const View& y, const View& dy, const View& dx) const;

 private:
  Param weight_;  // [h, 1]
  Value logits_;  // [T, 1]
};

}  // namespace zplan
