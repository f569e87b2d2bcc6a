// The router of a mixture of experts [Fedus21 sec 2.1]: scores of a token for all experts, of which
// it chooses some, and the rows that the choices have on their way to them (expert_rows.h). Each
// tensor parallel rank routes all tokens alike, and of the gradients of the weights it has the part
// that its pieces of the experts give; or, where it has whole experts, its own tokens, which then
// give that part. What is of whole sequences, capacity and auxiliary loss, then follows the choices
// of all these ranks, which they exchange as counts.
#pragma once

#include "planner/lower/blocks/expert_rows.h"
#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

class Router {
 public:
  // `bias`: of the logits.
  Router(LayerMaker& maker, const ExpertShape& shape, bool bias);

  Use use() const { return {kOfExperts, weight_}; }
  // From x [T, h] to rows(), weights() and counts().
  void forward(LayerPass& to, const View& x) const;
  // From the gradient of the weights to dx, which it adds to.
  void backward(LayerPass& to, const View& x, const View& dweights, const View& dx) const;

  View rows(const LayerPass& to) const { return to[rows_]; }        // [T, k]
  View weights(const LayerPass& to) const { return to[weights_]; }  // [T, k]
  View counts(const LayerPass& to) const { return to[counts_]; }    // [g, E / g], as they are sent
  Shape chosen() const { return {tokens_, shape_.per_token}; }
  // Returns what a token chooses, as an exchange of its rows has it (program.h).
  Attributes choices() const;

 private:
  void count(LayerPass& to) const;
  void weight_backward(LayerPass& to, const View& x, const View& dlogits) const;
  void logits_backward(LayerPass& to, const View& dweights, const View& dlogits) const;
  Attribute place(const LayerPass& to) const;  // among the ranks that have parts
  Attributes scores() const;
  Attributes choice() const;

  ExpertShape shape_;
  ExpertRows sizes_;
  std::int64_t tokens_, batch_;
  std::int64_t ranks_;   // tensor parallel ones that each route their part of the tokens
  std::int64_t parts_;   // that the ranks give of the auxiliary loss
  Param weight_, bias_;  // [h, E], [E] of the logits
  Param choice_bias_;    // [E], that only choices follow
  Value logits_, chosen_, weights_, rows_, counts_;  // [T, E], [T, k] thrice, [g, E / g]
  Value choices_;  // [t, b, E] of t tensor parallel ranks, where sums are over whole sequences
};

}  // namespace zplan
