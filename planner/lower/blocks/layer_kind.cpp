#include "planner/lower/blocks/layer_kind.h"

namespace zplan {

BranchNorm::BranchNorm(LayerMaker& maker, Norm kind, Part part, const std::string& tensor,
                       const std::string& number)
    : block_(maker, kind, part, tensor, maker.h()) {
  const std::int64_t tokens = maker.local_tokens();
  const auto add = [&](const char* name, const Shape& shape, DType dtype) {
    return maker.values.add(
        {.name = name + number, .shape = shape, .dtype = dtype, .of = LayerOperator::kNorm});
  };
  y_ = add("norm", {tokens, maker.h()}, maker.compute());
  if (block_.has_mean()) mean_ = add("mean", {tokens}, maker.kernels.statistics);
  rstd_ = add("rstd", {tokens}, maker.kernels.statistics);
  // Several tiles add to it from the first on.
  gradient_ =
      maker.values.gradient({.name = "d.norm",
                             .shape = {maker.tokens(), maker.h()},
                             .dtype = maker.compute(),
                             .in_backward = maker.tiles() > 1 ? Read::kLate : Read::kNever});
}

Branch::Branch(BranchNorm norm, std::unique_ptr<Body> body, Residual residual, Value out)
    : norm_(std::move(norm)), body_(std::move(body)), residual_(std::move(residual)), out_(out) {}

View Branch::forward(LayerPass& to) const {
  const std::vector<Use> uses = body_->uses();
  View x = norm_.of(to).y;
  if (body_->reads_input(to)) x = to.gathered(norm_.block().part(), x, "norm.gathered");
  const bool gives = to.emits(uses.back().op);
  const View partial = to[body_->partial()];
  body_->forward_before_tiles(to, x);
  if (gives) to.clear_for_tiles(body_->part(), partial);
  to.each_tile(uses, [&] { body_->forward(to, x); });
  if (!gives) return {};
  return to.summed(body_->part(), partial, std::string(name(body_->part())) + ".sum");
}

// From the gradient of what the branch adds, of one rank's tokens, to that of its normalised input.
View Branch::body_backward(LayerPass& to, const View& added) const {
  const Part part = norm_.block().part();
  View dy;
  const auto gather = [&] { dy = to.gathered(residual_.part(), added, "d.gathered"); };
  if (to.emits_inputs()) {
    gather();
  } else {
    to.again(gather);
  }
  View x = norm_.of(to).y;
  if (to.emits_weights()) x = to.gathered(part, x, "norm.gathered");
  const View dx = to.scratch(norm_.gradient().name, norm_.gradient().shape);
  if (body_->bias() && to.trains(body_->bias()) && to.emits_weights())
    to.kernel(body_->part(), Action::kBiasGradient, KernelId::kBiasGradient,
              {read(added), to.gradient(body_->bias()), to.workspace()});
  if (to.emits_inputs()) to.clear_for_tiles(part, dx);
  body_->backward_before_tiles(to);
  to.each_tile(body_->uses(), [&] { body_->backward(to, x, dy, dx); });
  body_->backward_after_tiles(to, x, dx);
  return to.emits_inputs() ? to.summed(part, dx, "d.norm.sum") : View{};
}

void Branch::backward(LayerPass& to, const View& input, const View& dx) const {
  const View added = residual_.backward(to, dx);
  const View dnorm = body_backward(to, added);
  if (!to.emits_inputs()) norm_.block().take_gradients(to);
  norm_.block().backward(to, dnorm, input, norm_.of(to), update(dx));
}

void LayerKind::forward(LayerPass& to, const View& input, const View& output) const {
  View x = input;
  const BranchNorm& first = branches.front().norm();
  if (to.emits(LayerOperator::kNorm)) first.block().forward(to, x, first.of(to));
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const Branch& branch = branches[i];
    const Param bias = branch.body().bias();
    const View y = branch.forward(to);
    if (i + 1 == branches.size()) return branch.residual().forward(to, x, y, bias, output);
    const BranchNorm& next = branches[i + 1].norm();
    const View out = to[branch.out()];
    branch.residual().forward_and_norm(to, x, y, bias, out, next.block(), next.of(to));
    x = out;
  }
}

void LayerKind::backward(LayerPass& to, const View& input, const View& dx) const {
  for (std::size_t i = branches.size(); i-- > 0;)
    branches[i].backward(to, i == 0 ? input : to[branches[i - 1].out()], dx);
}

std::vector<Use> LayerKind::uses() const {
  std::vector<Use> all;
  for (const Branch& branch : branches) {
    all.push_back({LayerOperator::kNorm, branch.norm().block().gain()});
    for (const Use& use : branch.body().uses()) all.push_back(use);
  }
  return all;
}

}  // namespace zplan
