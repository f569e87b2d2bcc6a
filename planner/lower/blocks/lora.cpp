#include "planner/lower/blocks/lora.h"

namespace zplan {
namespace {

Shape matrix_shape(const LoraShape& shape, std::int64_t rows, std::int64_t columns) {
  if (!shape.rows) return {rows, columns};
  return {shape.rows->ranks * shape.rows->experts, rows, columns};
}

// `cut`: how the matrix is cut where this factor is cut with it.
ParamSpec factor_spec(const LayerMaker& maker, std::string_view tensor, const char* suffix,
                      const Shape& matrix, const Split& split, Split::Kind cut) {
  const bool is_cut = split.kind == cut;
  return {.name = maker.naming.of(tensor, suffix),
          .published = matrix,
          .stored = matrix,
          .decay = true,
          .split = is_cut ? split : Split{},
          .summed = !is_cut,
          .is_factor = true};
}

// An expert is a row of the tensor, so that the rows of its matrix are columns of that.
void cut_rows_of_experts(ParamSpec& spec) {
  const std::int64_t elements = spec.stored[1] * spec.stored[2];
  spec.published = {spec.stored[0], elements};
  spec.split = {Split::Kind::kColumns, {elements}};
  spec.cut_dimension = 1;
}

}  // namespace

Lora::Lora(LayerMaker& maker, Part part, std::string_view tensor, const LoraShape& shape,
           OperatorSet of)
    : part_(part),
      rank_(maker.plan.train.rank),
      alpha_(maker.plan.train.alpha),
      by_root_(maker.plan.train.by_root),
      rows_(shape.rows) {
  ParamSpec down =
      factor_spec(maker, tensor, ".lora_A.weight", matrix_shape(shape, shape.in, rank_),
                  shape.split, Split::Kind::kRows);
  down.init = Init::kNormal;
  down.std = maker.naming.std().usual;
  if (rows_ && !down.summed) cut_rows_of_experts(down);
  down_ = maker.params.add(std::move(down));
  up_ = maker.params.add(factor_spec(maker, tensor, ".lora_B.weight",
                                     matrix_shape(shape, rank_, shape.out), shape.split,
                                     Split::Kind::kColumns));
  const std::int64_t tokens = shape.tokens > 0 ? shape.tokens : maker.tokens();
  low_ = maker.values.add({.name = "lora." + std::string(name(part)),
                           .shape = rows_ ? rows_->of(rank_) : Shape{tokens, rank_},
                           .dtype = maker.compute(),
                           .of = of});
}

bool Lora::is_beside(const Plan& plan, Part part) {
  if (!plan.train.has_lora()) return false;
  // The loss, which factors are trained by, has no gradient there.
  const bool of_indexer =
      part == Part::kIndexQuery || part == Part::kIndexKey || part == Part::kIndexWeights;
  if (of_indexer) return false;
  const bool of_experts = part == Part::kExpertUp || part == Part::kExpertDown;
  const bool of_mlp = part == Part::kFc1 || part == Part::kFc2 || of_experts;
  switch (plan.train.targets) {
    case LoraTargets::kAll:
      return true;
    case LoraTargets::kAttention:
      return !of_mlp;
    case LoraTargets::kMlp:
      return of_mlp;
    case LoraTargets::kQkv:
      return !of_mlp && part != Part::kProjection;
  }
  return false;
}

void Lora::scale(LayerPass& to, const View& low) const {
  const Attributes factor =
      by_root_ ? Attributes{alpha_ * alpha_, rank_, 1} : Attributes{alpha_, rank_};
  to.kernel(part_, Action::kLoraScale, KernelId::kScale, {update(low)}, factor);
}

void Lora::multiply(LayerPass& to, Action action, const View& x, Param factor, const View& y,
                    const View& counts) const {
  if (rows_) {
    to.kernel(part_, action, KernelId::kGroupedForward,
              {read(x), to.parameter(factor), read(counts), y, to.workspace()}, {rows_->expected});
  } else {
    to.kernel(part_, action, KernelId::kMatmulForward,
              {read(x), to.parameter(factor), y, to.workspace()});
  }
}

void Lora::input_gradient(LayerPass& to, Action action, const View& dy, Param factor,
                          const View& dx, const View& counts) const {
  if (rows_) {
    to.kernel(part_, action, KernelId::kGroupedInputGradient,
              {read(dy), to.parameter(factor), read(counts), dx, to.workspace()},
              {rows_->expected});
  } else {
    to.kernel(part_, action, KernelId::kLinearInputGradient,
              {read(dy), to.parameter(factor), dx, to.workspace()});
  }
}

void Lora::weight_gradient(LayerPass& to, Action action, const View& x, const View& dy,
                           Param factor, const View& counts) const {
  if (rows_) {
    to.kernel(part_, action, KernelId::kGroupedWeightGradient,
              {read(x), read(dy), read(counts), to.gradient(factor), to.workspace()},
              {rows_->expected});
  } else {
    to.kernel(part_, action, KernelId::kMatmulWeightGradient,
              {read(x), read(dy), to.gradient(factor), to.workspace()});
  }
}

void Lora::forward(LayerPass& to, const View& x, const View& y, const View& counts) const {
  const View& low = to[low_];
  multiply(to, Action::kLoraDown, x, down_, write(low), counts);
  scale(to, low);
  multiply(to, Action::kLoraUp, low, up_, update(y), counts);
}

void Lora::backward(LayerPass& to, const View& x, const View& dy, const View& dx,
                    const View& counts) const {
  const View dlow = to.handed(part_, "d.lora", to[low_].shape, !rows_);
  if (to.emits_inputs()) {
    input_gradient(to, Action::kLoraUp, dy, up_, write(dlow), counts);
    scale(to, dlow);
    input_gradient(to, Action::kLoraDown, dlow, down_, update(dx), counts);
  }
  if (!to.emits_weights()) return;
  weight_gradient(to, Action::kLoraDownWeight, x, dlow, down_, counts);
  weight_gradient(to, Action::kLoraUpWeight, to[low_], dy, up_, counts);
}

}  // namespace zplan
