// A mixture of experts in place of the MLP [Lepikhin20 sec 2.2], [DeepSeek24 sec 2.2]: the router
// gives each token's choices rows (router.h), which go to the ranks that have the experts, through
// their products, and back, where the weighted rows of a token are summed. An expert that all
// tokens share is an MLP beside them.
//
//   dispatch   rows of a rank's tokens to g ranks, which have p parts [p, r, h] (token_dispatch.h)
//   experts    [p, r, u] = rows W1, activation [p, r, f], [p, r, h] = W2, each expert its rows
//   combine    back the same way, the sum
//
// Experts may work on fewer elements of a token, l in the place of h: then a product before the
// dispatch and one behind the combine stand around all this, which each tensor parallel rank has
// whole, as it has the router.
//
// Tensor parallel ranks cut the width of each expert, as that of an MLP, or have whole experts, as
// other replicas have [Folding25]. With sequence parallelism each of them brings its own tokens,
// and what they combine is no part of a sum; the expert that all tokens share they cut all the
// same, and come together around it. Without it each exchanges the rows of all tokens among its
// own, and the second products are parts of a sum: each has the bias of its columns of them. With
// one rank in the group nothing is exchanged.
#pragma once

#include <memory>
#include <optional>

#include "planner/lower/blocks/kept_input.h"
#include "planner/lower/blocks/mlp.h"
#include "planner/lower/blocks/token_dispatch.h"

namespace zplan {

class Experts : public Body {
 public:
  // `mlp`: what each is like but for its width.
  Experts(LayerMaker& maker, const ExpertShape& shape, const MlpShape& mlp);

  std::vector<Use> uses() const override;
  BodyResult result() const override { return {partial_, Part::kCombine}; }
  bool has_own_tokens() const override { return own_tokens_; }
  bool reads_input(const LayerPass& to) const override;
  void forward(LayerPass& to, const View& x) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;

 private:
  // A product of the rows of each expert with its matrix [e, k, n], and its bias [e, m], of the
  // columns from the rank's first on. A plan may have factors of LoRA beside the matrices.
  struct Grouped {
    Part part;
    Param weight{}, bias{};
    std::int64_t columns_apart = 0;  // of the first ones of neighbouring ranks
    OperatorSet of{};
    std::optional<Lora> lora{};
  };
  Grouped first_products(LayerMaker& maker, const ExpertShape& shape, const MlpShape& mlp) const;
  Grouped second_products(LayerMaker& maker, const ExpertShape& shape, const MlpShape& mlp) const;

  View routed(LayerPass& to, const View& x) const;
  void combine(LayerPass& to) const;
  void dispatch_backward(LayerPass& to, const View& x, const View& dreceived, const View& dx,
                         const std::function<void()>& beside) const;
  void shared_forward(LayerPass& to, const View& x) const;
  void shared_backward(LayerPass& to, const View& x, const View& dy, const View& dx) const;
  View combine_backward(LayerPass& to, const View& dy, const View& dweights) const;
  void multiply(LayerPass& to, const Grouped& by, const View& x, const View& y) const;
  void weight_backward(LayerPass& to, const Grouped& by, const View& x, const View& dy) const;
  void multiply_backward(LayerPass& to, const Grouped& by, const View& x, const View& dy,
                         const View& dx) const;
  void input_backward(LayerPass& to, const Grouped& by, const View& dy, const View& dx) const;
  // Returns whether the gradients of the weights come beside the exchange of those of their inputs.
  bool puts_weights_off(const LayerPass& to) const {
    return weights_beside_ && to.emits_inputs() && to.emits_weights();
  }
  View activation_backward(LayerPass& to, const View& dgate) const;
  View counts(const LayerPass& to) const;
  Attributes attributes(const LayerPass& to, const Grouped& by) const;

  ExpertRows rows_;
  std::int64_t hidden_;  // h, or l
  bool own_tokens_;
  bool weights_beside_, shared_beside_;  // an exchange
  std::int64_t width_;                   // f of one rank
  bool gated_;
  Attributes activation_;
  Router router_;
  std::optional<Mlp> shared_;
  std::optional<Linear> latent_in_;   // [h, l]
  Grouped up_, down_;                 // [E, h, u], [E, f, h]; biases [E, u], [E, h]
  std::optional<Linear> latent_out_;  // [l, h]
  std::unique_ptr<TokenDispatch> dispatch_;
  Value latent_, latent_sum_;  // [T, l] of tokens, and of what experts give
  KeptInput kept_received_, kept_gate_;
  Value received_, fc1_, gate_;  // [p, r, h], [p, r, u] before and [p, r, f] after activation
  Value returned_;               // [p, r, h], or [g, r, h] of the rank's own tokens
  Value partial_;                // [T, h]
  ValueSpec dgate_, dfc1_;       // as those of an MLP
};

}  // namespace zplan
