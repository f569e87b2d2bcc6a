// A kind of layer: branches one after the other, each a norm, a body and the sum of what the body
// gives and the branch's input. The tensor parallel ranks come together around the bodies
// (tensor_parallel.h).
#pragma once

#include <memory>
#include <vector>

#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/norm.h"
#include "planner/lower/blocks/residual.h"

namespace zplan {

// A norm of the layer's stream and the values that it gives, "norm1", "mean1", "rstd1".
class BranchNorm {
 public:
  BranchNorm(LayerMaker& maker, Norm kind, Part part, const std::string& tensor,
             const std::string& number);

  const NormBlock& block() const { return block_; }
  const ValueSpec& gradient() const { return gradient_; }
  Normed of(const LayerPass& to) const { return {to[y_], to.maybe(mean_), to[rstd_]}; }

 private:
  NormBlock block_;
  Value y_, mean_, rstd_;
  ValueSpec gradient_;  // of y, of all tokens
};

class Branch {
 public:
  // `out`: the input of the branch that follows; none: the layer's output.
  Branch(BranchNorm norm, std::unique_ptr<Body> body, Residual residual, Value out);

  // From the normalised input to the sum over tiles and ranks, without bias.
  View forward(LayerPass& to) const;
  // dx holds the gradient of the output, then of the input.
  void backward(LayerPass& to, const View& input, const View& dx) const;

  const BranchNorm& norm() const { return norm_; }
  const Residual& residual() const { return residual_; }
  const Body& body() const { return *body_; }
  Value out() const { return out_; }

 private:
  View body_backward(LayerPass& to, const View& added) const;

  BranchNorm norm_;
  std::unique_ptr<Body> body_;
  Residual residual_;
  Value out_;
};

struct LayerKind {
  std::string name;
  LayerRange layers;  // of the model; none: kinds take turns
  Values values;
  std::vector<Branch> branches;

  // [T, h] each, T of one rank with sequence parallelism.
  void forward(LayerPass& to, const View& input, const View& output) const;
  void backward(LayerPass& to, const View& input, const View& dx) const;
  std::vector<Use> uses() const;  // in forward order
};

}  // namespace zplan
