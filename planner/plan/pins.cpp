#include "planner/plan/pins.h"

#include <algorithm>

namespace zplan {

void Pins::set_setting(const Decision& row, const Setting& value) {
  row.field.set(values_, value);
  is_set_[index(row)] = true;
  if (const auto* gather = std::get_if<Gather>(&value))
    tunes_units = *gather == Gather::kLayer || *gather == Gather::kOperator;
}

void Pins::apply(Plan& plan) const {
  for (const Decision& row : kChoices)
    if (is_set_[index(row)]) row.field.set(plan, row.field.get(values_));
}

bool Pins::allows(const Plan& plan) const {
  return std::all_of(constraints.begin(), constraints.end(),
                     [&](const Constraint& constraint) { return constraint.allows(plan); }) &&
         (!software || software->has(plan));
}

}  // namespace zplan
