// A kind of layer: branches one after the other, each a norm, a body and the sum of what the body
// gives, normalised again or not, and the branch's input; or parallel ones, whose bodies all begin
// with the layer's input, normalised for each or once. The tensor parallel ranks come together
// around the bodies (tensor_parallel.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/kept_input.h"
#include "planner/lower/blocks/norm.h"
#include "planner/lower/blocks/residual.h"

namespace zplan {

// A norm of the layer's stream and the values that it gives, "norm1", "mean1", "rstd1"; or none:
// then the branch reads the stream itself.
class BranchNorm {
 public:
  // `only_products`: nothing but products reads what it gives.
  BranchNorm(LayerMaker& maker, std::optional<NormKind> kind, Part part, const std::string& tensor,
             const std::string& number, bool only_products);
  // The same norm for another branch, under the name of another part.
  BranchNorm shared_by(Part part) const;

  Part part() const { return part_; }
  bool is_there() const { return block_.has_value(); }
  bool is_shared() const { return block_ && part_ != block_->part(); }
  bool has_gain() const { return block_ && block_->gain(); }
  const NormBlock& block() const { return *block_; }
  const ValueSpec& gradient() const { return gradient_; }
  const KeptInput& kept() const { return kept_; }
  Normed of(const LayerPass& to) const { return {to[y_], to.maybe(mean_), to[rstd_]}; }
  // Returns what the branch reads, of the stream that it begins with.
  View read_by_branch(const LayerPass& to, const View& stream) const {
    return block_ ? to[y_] : stream;
  }

 private:
  Part part_;
  std::optional<NormBlock> block_;
  KeptInput kept_;
  Value y_, mean_, rstd_;
  ValueSpec gradient_;  // of y, of all tokens
};

// A norm of what a body gives, which backward reads.
class PostNorm {
 public:
  // `of`: the operators that give it. `number`: of the branch.
  PostNorm(LayerMaker& maker, const NormKind& kind, Part part, const std::string& number,
           OperatorSet of);

  // From the partial sum of a part to the normalised sum, of the rank's tokens.
  View forward(LayerPass& to, Part part, const View& partial, bool is_whole) const;
  // The gradient of the sum from that of what is added.
  View backward(LayerPass& to, const View& added, const View& partial) const;
  Use use() const { return {of_, block_.gain()}; }

 private:
  View input(const LayerPass& to, const View& partial) const;
  Normed result(const LayerPass& to) const { return {to[y_], to.maybe(mean_), to[rstd_]}; }

  OperatorSet of_;
  NormBlock block_;
  Value sum_, y_, mean_, rstd_;  // the sum only where it does not lie in the partial sum
};

class Branch {
 public:
  // `out`: the input of the branch that follows; none: the layer's output.
  Branch(BranchNorm norm, std::unique_ptr<Body> body, std::optional<PostNorm> post,
         Residual residual, Value out);

  // From the normalised input to the sum over tiles and ranks, without bias.
  View forward(LayerPass& to, const View& input) const;
  // dx holds the gradient of the output, then of the input.
  void backward(LayerPass& to, const View& input, const View& dx, bool residual_of_norm) const;
  // From the gradient of the output to that of the normalised input.
  View backward_to_norm(LayerPass& to, const View& dout, const View& input) const;
  // From that to the gradient of the norm's input, which it writes or, as its access says, adds to.
  void norm_backward(LayerPass& to, const View& dnorm, const View& input, const View& dx) const;

  const BranchNorm& norm() const { return norm_; }
  const std::optional<PostNorm>& post() const { return post_; }
  const Residual& residual() const { return residual_; }
  const Body& body() const { return *body_; }
  Value out() const { return out_; }

 private:
  View body_backward(LayerPass& to, const View& added, const View& input) const;
  // These return what the body reads of the norm in a forward and in a backward, and of a gradient,
  // and its partial sums added up: over tensor parallel ranks, unless each works on its own tokens.
  View all_given(LayerPass& to, const View& y) const;
  View all_kept(LayerPass& to, const View& y) const;
  View gathered_gradient(LayerPass& to, const View& dy) const;
  View summed(LayerPass& to, Part part, const View& partial, const std::string& name) const;

  BranchNorm norm_;
  std::unique_ptr<Body> body_;
  std::optional<PostNorm> post_;
  Residual residual_;
  Value out_;
};

struct LayerKind {
  std::string name;
  LayerRange layers;  // of the model; none: kinds take turns
  Values values;
  std::vector<Branch> branches;
  bool parallel = false;
  bool residual_of_norm = false;  // what a branch gives is added to its norm's result

  // [T, h] each, T of one rank with sequence parallelism.
  void forward(LayerPass& to, const View& input, const View& output) const;
  void backward(LayerPass& to, const View& input, const View& dx) const;
  std::vector<Use> uses() const;  // in forward order

 private:
  void parallel_backward(LayerPass& to, const View& input, const View& dx) const;
};

}  // namespace zplan
