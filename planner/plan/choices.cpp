#include "planner/plan/choices.h"

#include "planner/core/error.h"

namespace zplan {

const Decision& decision(std::string_view pointer) {
  const Decision* const row = std::find_if(std::begin(kChoices), std::end(kChoices),
                                           [&](const Decision& d) { return d.pointer == pointer; });
  ZPLAN_ASSERT(row != std::end(kChoices));
  return *row;
}

bool Decision::is_plain(const Plan& plan) const { return field.get(plan) == plain(); }

Setting Decision::plain() const {
  static const Plan kUnchanged;
  return field.get(kUnchanged);
}

std::string_view name(GatherUnit unit) {
  return kWordsOf<GatherUnit>[static_cast<std::size_t>(unit)];
}
std::string_view name(Recompute recompute) {
  return kWordsOf<Recompute>[static_cast<std::size_t>(recompute)];
}
std::string_view name(Schedule schedule) {
  return kWordsOf<Schedule>[static_cast<std::size_t>(schedule)];
}
std::string_view name(LaunchMode launch) {
  return kWordsOf<LaunchMode>[static_cast<std::size_t>(launch)];
}

std::string_view name(GradientCast cast) {
  return kWordsOf<GradientCast>[static_cast<std::size_t>(cast)];
}

}  // namespace zplan
