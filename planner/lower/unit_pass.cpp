#include "planner/lower/unit_pass.h"

namespace zplan {

void UnitPass::begin(Phase phase) {
  enter(phase);
  resident_.clear();
}

View UnitPass::parameter(Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  if (parameters_.are_resident() || !resident_.contains(unit))
    resident_[unit] =
        parameters_.fetch(phase(), unit, part_.value_or(s_.layout.part[unit]), ordinal(unit));
  return read(parameters_.view(resident_.at(unit), param));
}

std::vector<View> UnitPass::scales(Param param) { return parameters_.scales(param); }

View UnitPass::gradient(Param param) {
  if (!trains(param)) return unused_gradient(param, gradients_.written());
  const UnitIndex unit = s_.layout.unit_of(param);
  // Nodes of two passes, or of two ends that come tile by tile, are told apart by their end of the
  // model.
  const bool apart = s_.has_ends_apart() || s_.layout.units[unit].tiles > 1;
  const std::optional<Part> part = apart ? part_ : std::nullopt;
  if (!open_.contains(unit)) open_[unit] = gradients_.open(unit, ordinal(unit), part);
  return gradients_.view(open_.at(unit), param);
}

void UnitPass::done(Param param) {
  if (!keeps_open_) close(param);
}

void UnitPass::close(Param param) {
  if (trains(param)) gradients_.close(release(param), last_micro_);
}

void UnitPass::close_all() {
  while (!open_.empty()) gradients_.close(open_.extract(open_.begin()).mapped(), last_micro_);
}

Gradients::Open UnitPass::release(Param param) {
  return open_.extract(s_.layout.unit_of(param)).mapped();
}

void UnitPass::adopt(Gradients::Open open) {
  open.access = Access::kUpdate;
  open_[open.unit] = open;
}

}  // namespace zplan
