#include "planner/lower/blocks/layer_kind.h"

namespace zplan {

BranchNorm::BranchNorm(LayerMaker& maker, std::optional<NormKind> kind, Part part,
                       const std::string& tensor, const std::string& number, bool only_products)
    : part_(part) {
  if (kind) block_.emplace(maker, *kind, part, tensor, maker.h());
  const std::int64_t tokens = maker.local_tokens();
  const auto spec = [&](const char* name, const Shape& shape, DType dtype) {
    return ValueSpec{
        .name = name + number, .shape = shape, .dtype = dtype, .of = LayerOperator::kNorm};
  };
  const auto add = [&](const char* name, const Shape& shape, DType dtype) {
    return maker.values.add(spec(name, shape, dtype));
  };
  const ValueSpec y = spec("norm", {tokens, maker.h()}, maker.compute());
  if (block_) y_ = only_products ? add_input(maker, part, y, kept_) : maker.values.add(y);
  if (block_ && block_->has_mean()) mean_ = add("mean", {tokens}, maker.kernels.statistics);
  if (block_) rstd_ = add("rstd", {tokens}, maker.kernels.statistics);
  // Several tiles add to it from the first on.
  gradient_ =
      maker.values.gradient({.name = "d.norm",
                             .shape = {maker.tokens(), maker.h()},
                             .dtype = maker.compute(),
                             .in_backward = maker.tiles() > 1 ? Read::kLate : Read::kNever});
}

BranchNorm BranchNorm::shared_by(Part part) const {
  BranchNorm other = *this;
  other.part_ = part;
  return other;
}

PostNorm::PostNorm(LayerMaker& maker, const NormKind& kind, Part part, const std::string& number,
                   OperatorSet of)
    : of_(of), block_(maker, kind, part, "post_norm" + number, maker.h()) {
  const std::int64_t tokens = maker.local_tokens();
  // What the last body of a layer leaves is read before backward comes to its activation function.
  const auto add = [&](const char* name, const Shape& shape, DType dtype, Life life) {
    return maker.values.add({.name = name + number,
                             .shape = shape,
                             .dtype = dtype,
                             .of = of,
                             .life = life,
                             .in_backward = of.empty() ? Read::kFirst : Read::kLate});
  };
  const Shape all{tokens, maker.h()};
  if (!maker.keeps_sums) sum_ = add("added", all, maker.compute(), Life::kBackward);
  y_ = add("added.norm", all, maker.compute(), Life::kForward);
  if (block_.has_mean())
    mean_ = add("added.mean", {tokens}, maker.kernels.statistics, Life::kBackward);
  rstd_ = add("added.rstd", {tokens}, maker.kernels.statistics, Life::kBackward);
}

View PostNorm::input(const LayerPass& to, const View& partial) const {
  return sum_ ? to[sum_] : partial;
}

View PostNorm::forward(LayerPass& to, Part part, const View& partial, bool is_whole) const {
  const View sum = input(to, partial);
  if (is_whole && sum_) to.move(part, partial, sum);
  if (!is_whole) to.sum_into(part, partial, sum);
  block_.forward(to, sum, result(to));
  return to[y_];
}

View PostNorm::backward(LayerPass& to, const View& added, const View& partial) const {
  const View dsum = to.handed(block_.part(), "d.sum", added.shape, false);
  if (!to.emits_inputs()) block_.take_gradients(to);
  block_.backward(to, added, input(to, partial), result(to), write(dsum));
  return dsum;
}

Branch::Branch(BranchNorm norm, std::unique_ptr<Body> body, std::optional<PostNorm> post,
               Residual residual, Value out)
    : norm_(std::move(norm)),
      body_(std::move(body)),
      post_(std::move(post)),
      residual_(std::move(residual)),
      out_(out) {}

View Branch::all_given(LayerPass& to, const View& y) const {
  if (!body_->reads_input(to) || body_->has_own_tokens()) return y;
  const KeptInput& kept = norm_.kept();
  return to.emits(LayerOperator::kNorm) ? kept.all_given(to, norm_.part(), y, "norm.gathered")
                                        : kept.all_kept(to, norm_.part(), y, "norm.gathered");
}

View Branch::all_kept(LayerPass& to, const View& y) const {
  if (!to.emits_weights() || body_->has_own_tokens()) return y;
  return norm_.kept().all_kept(to, norm_.part(), y, "norm.gathered");
}

View Branch::gathered_gradient(LayerPass& to, const View& dy) const {
  return body_->has_own_tokens() ? dy : to.gathered_gradient(residual_.part(), dy, "d.gathered");
}

View Branch::summed(LayerPass& to, Part part, const View& partial, const std::string& name) const {
  return body_->has_own_tokens() ? partial : to.summed(part, partial, name);
}

View Branch::forward(LayerPass& to, const View& input) const {
  const std::vector<Use> uses = body_->uses();
  const View given = norm_.read_by_branch(to, input);
  if (to.emits(LayerOperator::kNorm)) norm_.kept().keep(to, given);
  const View x = all_given(to, given);
  const bool gives = to.emits(uses.back().of);
  const View partial = to[body_->partial()];
  body_->forward_before_tiles(to, x);
  if (gives) to.clear_for_tiles(body_->part(), partial);
  to.each_tile(uses, [&] { body_->forward(to, x); });
  if (!to.emits(residual_.of())) return {};
  if (post_) return post_->forward(to, body_->part(), partial, body_->has_own_tokens());
  return summed(to, body_->part(), partial, std::string(name(body_->part())) + ".sum");
}

// From the gradient of what the branch adds, of one rank's tokens, to that of its normalised input.
View Branch::body_backward(LayerPass& to, const View& added, const View& input) const {
  const Part part = norm_.part();
  View dy;
  const auto gather = [&] { dy = gathered_gradient(to, added); };
  if (to.emits_inputs()) {
    gather();
  } else {
    to.again(gather);
  }
  const View x = all_kept(to, norm_.read_by_branch(to, input));
  const Shape& shape = body_->has_own_tokens() ? added.shape : norm_.gradient().shape;
  const View dx = to.scratch(norm_.gradient().name, shape);
  if (body_->bias() && to.trains(body_->bias()) && to.emits_weights())
    to.kernel(body_->part(), Action::kBiasGradient, KernelId::kBiasGradient,
              {read(added), to.gradient(body_->bias()), to.workspace()});
  if (to.emits_inputs()) to.clear_for_tiles(part, dx);
  const bool holds = !norm_.has_gain() && !to.in_tiles();
  if (holds) to.hold(body_->all_uses().front().param);
  body_->backward_before_tiles(to);
  to.each_tile(body_->uses(), [&] { body_->backward(to, x, dy, dx); });
  body_->backward_after_tiles(to, x, dx);
  if (holds) to.end_hold();
  return to.emits_inputs() ? summed(to, part, dx, "d.norm.sum") : View{};
}

View Branch::backward_to_norm(LayerPass& to, const View& dout, const View& input) const {
  View added = residual_.backward(to, dout, !post_);
  if (post_) added = post_->backward(to, added, to.maybe(body_->partial()));
  return body_backward(to, added, input);
}

void Branch::norm_backward(LayerPass& to, const View& dnorm, const View& input,
                           const View& dx) const {
  if (!to.emits_inputs()) norm_.block().take_gradients(to);
  norm_.block().backward(to, dnorm, input, norm_.of(to), dx);
}

void Branch::backward(LayerPass& to, const View& input, const View& dx,
                      bool residual_of_norm) const {
  const View dnorm = backward_to_norm(to, dx, input);
  if (!norm_.is_there()) {
    if (to.emits_inputs())
      to.kernel(residual_.part(), KernelId::kResidualAdd, {read(dx), read(dnorm), write(dx)});
    return;
  }
  if (!residual_of_norm) return norm_backward(to, dnorm, input, update(dx));
  if (to.emits_inputs())
    to.kernel(residual_.part(), KernelId::kResidualAdd, {read(dnorm), read(dx), write(dnorm)});
  norm_backward(to, dnorm, input, write(dx));
}

void LayerKind::forward(LayerPass& to, const View& input, const View& output) const {
  View x = input;
  const BranchNorm& first = branches.front().norm();
  if (first.is_there() && to.emits(LayerOperator::kNorm))
    first.block().forward(to, x, first.of(to));
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const Branch& branch = branches[i];
    const Param bias = branch.body().bias();
    const View y = branch.forward(to, x);
    if (residual_of_norm) x = branch.norm().of(to).y;
    if (i + 1 == branches.size()) return branch.residual().forward(to, x, y, bias, output);
    const BranchNorm& next = branches[i + 1].norm();
    const View out = to[branch.out()];
    if (!parallel && next.is_there()) {
      branch.residual().forward_and_norm(to, x, y, bias, out, next.block(), next.of(to));
    } else {
      branch.residual().forward(to, x, y, bias, out);
      if (parallel && !next.is_shared() && to.emits(LayerOperator::kNorm))
        next.block().forward(to, input, next.of(to));
    }
    x = out;
  }
}

void LayerKind::backward(LayerPass& to, const View& input, const View& dx) const {
  if (parallel) return parallel_backward(to, input, dx);
  for (std::size_t i = branches.size(); i-- > 0;)
    branches[i].backward(to, i == 0 ? input : to[branches[i - 1].out()], dx, residual_of_norm);
}

// Both branches read the gradient of the output, dx, before the first adds to it. What the second
// gives waits in a buffer of its own: the gradient of the input or of the one norm's result.
void LayerKind::parallel_backward(LayerPass& to, const View& input, const View& dx) const {
  const Branch &first = branches.front(), &second = branches.back();
  const bool one_norm = second.norm().is_shared();
  const auto add = [&](const View& sum, const View& more) {
    if (to.emits_inputs())
      to.kernel(second.residual().part(), KernelId::kResidualAdd,
                {read(sum), read(more), write(sum)});
  };
  View waits = second.backward_to_norm(to, dx, input);
  if (one_norm) {
    if (to.emits_inputs()) {
      const View given = waits;
      waits = to.scratch("d.second", given.shape);
      to.move(second.norm().part(), given, waits);
    }
  } else {
    const View dnorm = waits;
    if (to.emits_inputs()) waits = to.scratch("d.second", dx.shape);
    second.norm_backward(to, dnorm, input, write(waits));
  }
  const View dnorm = first.backward_to_norm(to, dx, input);
  if (one_norm) add(dnorm, waits);
  first.norm_backward(to, dnorm, input, update(dx));
  if (!one_norm) add(dx, waits);
}

std::vector<Use> LayerKind::uses() const {
  std::vector<Use> all;
  for (const Branch& branch : branches) {
    const BranchNorm& norm = branch.norm();
    if (norm.is_there() && !norm.is_shared() && norm.block().gain())
      all.push_back({LayerOperator::kNorm, norm.block().gain()});
    for (const Use& use : branch.body().all_uses()) all.push_back(use);
    if (branch.post() && branch.post()->use().param) all.push_back(branch.post()->use());
  }
  return all;
}

}  // namespace zplan
