// The MLP of a layer: two products with GELU [Hendrycks16] or another function between them or,
// gated, SwiGLU of two first products or a like of it [Shazeer20]. A kernel set may have the tanh
// form of GELU in the products beside it.
#pragma once

#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/column_factors.h"
#include "planner/lower/blocks/kept_input.h"
#include "planner/lower/blocks/token_gate.h"
#include "planner/program/kernels/attribute_values.h"

namespace zplan {

// What stands between the two products; limit and offset, of a gated MLP, as kernels take them.
struct ActivationShape {
  ActivationFunction function = ActivationFunction::kOwn;
  std::int64_t limit = 0, offset = 0;

  Attributes attributes() const { return {static_cast<std::int64_t>(function), limit, offset}; }
};

struct MlpShape {
  std::int64_t width = 0;  // f, of the model
  bool gated = false;
  bool bias = false;
  ActivationShape activation{};
  PartFactors factors{};    // of the columns of gate and up
  bool token_gate = false;  // token_gate.h; without biases only
  // Names of its tensors, which are those of its operators.
  const char* first = "fc1";
  const char* second = "fc2";
  // Whether backward comes to another activation function of the layer, and then to this one.
  bool is_second = false;
  OperatorSet whole{};  // whose replay gives all of it, beside that of the whole layer
};

class Mlp : public Body {
 public:
  Mlp(LayerMaker& maker, const MlpShape& shape);

  std::vector<Use> uses() const override { return {fc1_.use(), fc2_.linear.use()}; }
  BodyResult result() const override { return fc2_; }
  void forward(LayerPass& to, const View& x) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;

 private:
  void activate(LayerPass& to) const;
  View activation_backward(LayerPass& to, const View& dgelu) const;

  std::int64_t width_;  // f of one tile of one rank
  bool gated_, fuses_neighbours_;
  Attributes activation_;  // of its kernels
  OperatorSet whole_;
  Linear fc1_;  // [h, u], u = f or, of gate and up side by side, 2 f
  ColumnFactors factors_;
  std::optional<TokenGate> token_gate_;
  KeptInput kept_;          // of the second product
  Value fc1_out_, gelu_;    // [T, u] before GELU or SwiGLU, [T, f] after it
  LastProduct fc2_;         // [f, h]
  ValueSpec dgelu_, dfc1_;  // gradients of the two; not gated: one after the other in one
};

}  // namespace zplan
