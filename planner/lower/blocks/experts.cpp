#include "planner/lower/blocks/experts.h"

namespace zplan {
namespace {

std::optional<Mlp> make_shared(LayerMaker& maker, const ExpertShape& shape, const MlpShape& mlp) {
  if (shape.shared_ffn == 0) return std::nullopt;
  maker.params.begin("shared_fc1", Part::kFc1);
  return Mlp(maker, {.width = shape.shared_ffn,
                     .gated = mlp.gated,
                     .activation = mlp.activation,
                     .token_gate = shape.shared_gate,
                     .first = "shared_fc1",
                     .second = "shared_fc2",
                     .is_second = true,
                     .whole = kOfExperts});
}

std::optional<Linear> make_latent_in(LayerMaker& maker, std::int64_t latent, std::int64_t tokens) {
  if (latent == 0) return std::nullopt;
  maker.params.begin("latent_in", Part::kLatentIn);
  return Linear(maker, Part::kLatentIn, "latent_in",
                {.in = maker.h(), .out = {latent}, .cut = Split::Kind::kNone, .tokens = tokens},
                kOfExperts);
}

std::optional<Linear> make_latent_out(LayerMaker& maker, std::int64_t latent, std::int64_t tokens) {
  if (latent == 0) return std::nullopt;
  maker.params.begin("latent_out", Part::kLatentOut);
  return Linear(maker, Part::kLatentOut, "latent_out",
                {.in = latent, .out = {maker.h()}, .cut = Split::Kind::kNone, .tokens = tokens},
                kOfExperts);
}

bool own_tokens(const LayerMaker& maker) { return maker.plan.parallel.routes_own_tokens(); }

// A row for each expert.
Param make_bias(LayerMaker& maker, const char* tensor, const Shape& shape, Split split) {
  return maker.params.add({.name = maker.naming.of(tensor, ".bias"),
                           .published = shape,
                           .stored = shape,
                           .split = std::move(split)});
}

}  // namespace

Experts::Grouped Experts::first_products(LayerMaker& maker, const ExpertShape& shape,
                                         const MlpShape& mlp) const {
  maker.params.begin_experts("experts_up", Part::kExpertUp);
  const std::vector<std::int64_t> widths(std::size_t{mlp.gated ? 2U : 1U}, shape.ffn);
  const std::int64_t columns = shape.ffn * static_cast<std::int64_t>(widths.size());
  const Split split{Split::Kind::kColumns, widths};
  Grouped up{.part = Part::kExpertUp, .of = LayerOperator::kFc1 | kOfExperts};
  if (Lora::is_beside(maker.plan, up.part))
    up.lora.emplace(maker, up.part, "experts_up",
                    LoraShape{.in = hidden_, .out = columns, .split = split, .rows = rows_}, up.of);
  up.weight =
      maker.matrix("experts_up", {shape.count, hidden_, columns}, maker.naming.std().usual, split);
  if (mlp.bias) up.bias = make_bias(maker, "experts_up", {shape.count, columns}, split);
  return up;
}

// An expert is a row of the tensor, so that the rows of its matrix are columns of that.
Experts::Grouped Experts::second_products(LayerMaker& maker, const ExpertShape& shape,
                                          const MlpShape& mlp) const {
  maker.params.begin_experts("experts_down", Part::kExpertDown);
  const std::int64_t elements = shape.ffn * hidden_;
  Grouped down{.part = Part::kExpertDown,
               .columns_apart = maker.plan.parallel.folds_experts() ? 0 : hidden_ / maker.pieces(),
               .of = kOfExperts};
  if (Lora::is_beside(maker.plan, down.part))
    down.lora.emplace(
        maker, down.part, "experts_down",
        LoraShape{
            .in = shape.ffn, .out = hidden_, .split = {Split::Kind::kRows, {}}, .rows = rows_},
        down.of);
  down.weight = maker.params.add({.name = maker.naming.of("experts_down", ".weight"),
                                  .published = {shape.count, elements},
                                  .stored = {shape.count, shape.ffn, hidden_},
                                  .init = Init::kNormal,
                                  .std = maker.naming.std().output,
                                  .decay = true,
                                  .split = {Split::Kind::kColumns, {elements}},
                                  .cut_dimension = 1});
  if (mlp.bias)
    down.bias = make_bias(maker, "experts_down", {shape.count, hidden_},
                          {Split::Kind::kColumns, {hidden_}});
  return down;
}

Experts::Experts(LayerMaker& maker, const ExpertShape& shape, const MlpShape& mlp)
    : rows_(maker, shape),
      hidden_(shape.latent > 0 ? shape.latent : maker.h()),
      own_tokens_(own_tokens(maker)),
      weights_beside_(maker.plan.overlap.weight_gradients),
      shared_beside_(maker.plan.overlap.shared_expert),
      width_(shape.ffn / maker.expert_pieces()),
      gated_(mlp.gated),
      activation_(mlp.activation.attributes()),
      router_(maker, shape, mlp.bias),
      shared_(make_shared(maker, shape, mlp)),
      latent_in_(make_latent_in(maker, shape.latent, rows_.tokens)),
      up_(first_products(maker, shape, mlp)),
      down_(second_products(maker, shape, mlp)),
      latent_out_(make_latent_out(maker, shape.latent, rows_.tokens)) {
  const auto add = [&](const char* name, std::int64_t width, OperatorSet of,
                       Read in_backward = Read::kLate) {
    return maker.values.add({.name = name,
                             .shape = rows_.of(width),
                             .dtype = maker.compute(),
                             .of = of,
                             .in_backward = in_backward});
  };
  dispatch_ = make_dispatch(maker, rows_, router_, hidden_);
  const auto add_kept = [&](Part part, const char* name, std::int64_t width, OperatorSet of,
                            Read in_backward, KeptInput& kept) {
    return add_input(maker, part,
                     {.name = name,
                      .shape = rows_.of(width),
                      .dtype = maker.compute(),
                      .of = of,
                      .in_backward = in_backward},
                     kept);
  };
  received_ =
      add_kept(Part::kExpertUp, "experts.input", hidden_, kOfExperts, Read::kLate, kept_received_);
  // Gradients of weights that are put off come when what the activation's gradient reads is gone.
  fc1_ = add("experts.fc1", (gated_ ? 2 : 1) * width_, LayerOperator::kFc1 | kOfExperts,
             weights_beside_ ? Read::kFirst : Read::kLate);
  gate_ = add_kept(Part::kExpertDown, "experts.gelu", width_,
                   LayerOperator::kActivation | kOfExperts, Read::kFirst, kept_gate_);
  returned_ = maker.values.add({.name = "experts.output",
                                .shape = dispatch_->returned(hidden_),
                                .dtype = maker.compute(),
                                .of = kOfExperts,
                                .in_backward = Read::kFirst});
  const auto add_latent = [&](const char* name) {
    return maker.values.add({.name = name,
                             .shape = {rows_.tokens, hidden_},
                             .dtype = maker.compute(),
                             .of = kOfExperts,
                             .in_backward = Read::kFirst});
  };
  if (latent_in_) latent_ = add_latent("experts.latent");
  if (latent_out_) latent_sum_ = add_latent("experts.latent.sum");
  partial_ = shared_ && !own_tokens_ ? shared_->partial()
                                     : maker.values.add({.name = "experts.sum",
                                                         .shape = {rows_.tokens, maker.h()},
                                                         .dtype = maker.compute(),
                                                         .of = kOfExperts,
                                                         .life = Life::kForward});
  const auto spec = [&](const char* name, std::int64_t width) {
    return ValueSpec{.name = name, .shape = rows_.of(width), .dtype = maker.compute()};
  };
  dgate_ = spec("d.experts.gelu", width_);
  if (!(gated_ && weights_beside_)) dgate_ = maker.values.gradient(dgate_);
  if (gated_) dfc1_ = maker.values.gradient(spec("d.experts.fc1", 2 * width_));
}

std::vector<Use> Experts::uses() const {
  std::vector<Use> all{router_.use()};
  if (shared_)
    for (const Use& use : shared_->uses()) all.push_back(use);
  if (latent_in_) all.push_back(latent_in_->use());
  for (const Grouped* product : {&up_, &down_}) all.push_back({product->of, product->weight});
  if (latent_out_) all.push_back(latent_out_->use());
  return all;
}

bool Experts::reads_input(const LayerPass& to) const {
  return to.emits(kOfExperts) || (shared_ && shared_->reads_input(to));
}

// As the ranks that have the experts find them.
View Experts::counts(const LayerPass& to) const { return dispatch_->counts(to, router_); }

// Returns what the experts read of the tokens.
View Experts::routed(LayerPass& to, const View& x) const {
  if (!latent_in_) return x;
  latent_in_->forward(to, x, to[latent_]);
  return to[latent_];
}

void Experts::combine(LayerPass& to) const {
  const View given = dispatch_->given(to, to[returned_]);
  multiply(to, down_, to[gate_], given);
  const View sum = shared_ ? update(to[partial_]) : write(to[partial_]);
  dispatch_->combine(to, router_, given, to[returned_], latent_out_ ? write(to[latent_sum_]) : sum);
  if (latent_out_) latent_out_->forward(to, to[latent_sum_], sum);
}

Attributes Experts::attributes(const LayerPass& to, const Grouped& by) const {
  Attributes all{rows_.expected};
  if (by.bias && by.columns_apart > 0) all[1] = to.by_place(kTensorAxis, by.columns_apart);
  return all;
}

void Experts::multiply(LayerPass& to, const Grouped& by, const View& x, const View& y) const {
  if (by.bias) {
    to.kernel(by.part, KernelId::kGroupedLinearForward,
              {read(x), to.matrix(by.part, by.weight), read(counts(to)), to.parameter(by.bias),
               write(y), to.workspace()},
              attributes(to, by));
  } else {
    to.kernel(by.part, KernelId::kGroupedForward,
              {read(x), to.matrix(by.part, by.weight), read(counts(to)), write(y), to.workspace()},
              attributes(to, by));
  }
  if (by.lora) by.lora->forward(to, x, y, counts(to));
}

// Tensor parallel ranks cut it as any MLP: those with tokens of their own come together around it.
void Experts::shared_forward(LayerPass& to, const View& x) const {
  if (!own_tokens_) return shared_->forward(to, x);
  View all = x;
  if (shared_->reads_input(to)) all = to.gathered(Part::kFc1, x, "shared.gathered");
  shared_->forward(to, all);
  if (to.emits(kOfExperts)) to.sum_into(Part::kFc2, to[shared_->partial()], to[partial_]);
}

void Experts::forward(LayerPass& to, const View& x) const {
  if (to.emits(kOfExperts)) router_.forward(to, x);
  if (shared_ && !shared_beside_) shared_forward(to, x);
  if (to.emits(kOfExperts)) {
    dispatch_->dispatch(to, router_, routed(to, x), to[received_]);
    kept_received_.keep(to, to[received_]);
  }
  if (shared_ && shared_beside_) shared_forward(to, x);
  if (to.emits(up_.of)) {
    const View& received = to[received_];
    multiply(to, up_, to.emits(kOfExperts) ? received : kept_received_.read(to, received, true),
             to[fc1_]);
  }
  if (to.emits(LayerOperator::kActivation | kOfExperts)) {
    to.kernel(Part::kExpertGate, gated_ ? KernelId::kSwigluForward : KernelId::kGeluForward,
              {read(as_rows(to[fc1_])), write(as_rows(to[gate_]))}, activation_);
    kept_gate_.keep(to, to[gate_]);
  }
  if (to.emits(kOfExperts)) combine(to);
}

// The gradient of what the second products of this rank's experts give.
View Experts::combine_backward(LayerPass& to, const View& dy, const View& dweights) const {
  const View dout = to.handed(Part::kExpertDown, "d.experts.output", rows_.of(hidden_), false);
  if (to.emits_inputs())
    dispatch_->combine_backward(to, router_, dy, to[returned_], dout, dweights);
  return dout;
}

void Experts::weight_backward(LayerPass& to, const Grouped& by, const View& x,
                              const View& dy) const {
  if (by.bias) {
    to.kernel(by.part, Action::kWeightGradient, KernelId::kGroupedLinearWeightGradient,
              {read(x), read(dy), read(counts(to)), to.gradient(by.weight), to.gradient(by.bias),
               to.workspace()},
              attributes(to, by));
  } else {
    to.kernel(by.part, Action::kWeightGradient, KernelId::kGroupedWeightGradient,
              {read(x), read(dy), read(counts(to)), to.gradient(by.weight), to.workspace()},
              attributes(to, by));
  }
}

void Experts::input_backward(LayerPass& to, const Grouped& by, const View& dy,
                             const View& dx) const {
  to.kernel(by.part, KernelId::kGroupedInputGradient,
            {read(dy), to.matrix(by.part, by.weight), read(counts(to)), write(dx), to.workspace()},
            {rows_.expected});
}

void Experts::multiply_backward(LayerPass& to, const Grouped& by, const View& x, const View& dy,
                                const View& dx) const {
  if (puts_weights_off(to)) return input_backward(to, by, dy, dx);
  if (to.emits_weights() && to.trains(by.weight)) weight_backward(to, by, x, dy);
  if (to.emits_inputs()) input_backward(to, by, dy, dx);
  if (by.lora) by.lora->backward(to, x, dy, dx, counts(to));
  to.done(by.weight);
}

View Experts::activation_backward(LayerPass& to, const View& dgate) const {
  if (!gated_) {
    if (to.emits_inputs())
      to.kernel(Part::kExpertGate, KernelId::kGeluBackward,
                {read(as_rows(to[fc1_])), update(as_rows(dgate))}, activation_);
    return dgate;
  }
  const View dfc1 = to.handed(Part::kExpertUp, dfc1_.name.c_str(), dfc1_.shape, false);
  if (to.emits_inputs())
    to.kernel(Part::kExpertGate, KernelId::kSwigluBackward,
              {read(as_rows(to[fc1_])), read(as_rows(dgate)), write(as_rows(dfc1))}, activation_);
  return dfc1;
}

void Experts::shared_backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  if (!own_tokens_) return shared_->backward(to, x, dy, update(dx));
  View all = x, all_dy;
  const auto gather = [&] { all_dy = to.gathered(Part::kFc2, dy, "d.shared.gathered"); };
  if (to.emits_inputs()) {
    gather();
  } else {
    to.again(gather);
  }
  if (to.emits_weights()) all = to.gathered(Part::kFc1, x, "shared.gathered");
  const View all_dx = to.scratch("d.shared.input", all_dy.shape);
  shared_->backward(to, all, all_dy, all_dx);
  if (!to.emits_inputs()) return;
  const View sum = to.summed(Part::kFc1, all_dx, "d.shared.sum");
  to.kernel(Part::kCombine, Action::kAccumulate, KernelId::kResidualAdd,
            {read(dx), read(sum), write(dx)});
}

// Computes the gradient of the tokens from that of what the experts read, and writes it.
void Experts::dispatch_backward(LayerPass& to, const View& x, const View& dreceived, const View& dx,
                                const std::function<void()>& beside) const {
  View drouted = dx;
  if (latent_in_)
    drouted = to.handed(Part::kLatentIn, "d.experts.latent", {rows_.tokens, hidden_}, false);
  if (to.emits_inputs()) dispatch_->dispatch_backward(to, router_, dreceived, drouted, beside);
  if (latent_in_) latent_in_->backward(to, x, drouted, write(dx));
}

void Experts::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dweights = to.scratch("d.weights.router", router_.chosen(), router_.weights(to).dtype);
  View dsum = dy;
  if (latent_out_) {
    dsum = to.scratch("d.experts.latent.sum", to[latent_sum_].shape);
    latent_out_->backward(to, to[latent_sum_], dy, write(dsum));
  }
  const View dout = combine_backward(to, dsum, dweights);
  const View dgate = gated_ ? to.scratch(dgate_.name, dgate_.shape)
                            : to.handed(Part::kExpertUp, dgate_.name.c_str(), dgate_.shape, false);
  const View gate = kept_gate_.read(to, to[gate_]);
  multiply_backward(to, down_, gate, dout, dgate);
  const View dfc1 = activation_backward(to, dgate);
  const View dreceived = to.scratch("d.experts.input", rows_.of(hidden_));
  const View received = kept_received_.read(to, to[received_]);
  multiply_backward(to, up_, received, dfc1, dreceived);
  const auto weights = [&](const Grouped& by, const View& input, const View& output) {
    if (to.trains(by.weight)) weight_backward(to, by, input, output);
    to.done(by.weight);
  };
  const auto put_off = [&] {
    if (!puts_weights_off(to)) return;
    weights(down_, gate, dout);
    weights(up_, received, dfc1);
  };
  dispatch_backward(to, x, dreceived, dx, put_off);
  if (shared_) shared_backward(to, x, dy, dx);
  router_.backward(to, x, dweights, dx);
}

}  // namespace zplan
