#include "planner/search/open_families.h"

#include <algorithm>

namespace zplan {

void OpenFamilies::add(const Leaf& leaf, Seconds bound) {
  const Family family = family_of(leaf.candidate.plan);
  keep(least_, family, leaf, bound);
  if (could_win(leaf.candidate.plan, bound)) keep(undecided_, family, leaf, bound);
}

void OpenFamilies::keep(Least& least, const Family& family, const Leaf& leaf, Seconds bound) {
  const auto [at, is_new] = least.try_emplace(family);
  if (!is_new && at->second.candidate.bound <= bound) return;
  at->second = leaf;
  at->second.candidate.bound = bound;
  at->second.candidate.step.reset();
}

bool OpenFamilies::could_win(const Plan& plan, Seconds bound) const {
  if (ranking_.empty()) return true;
  const Leaf& recommended = ranking_.recommended();
  if (bound <= recommended.value()) return true;
  return bound <= ranking_.limit_of(plan) &&
         simplicity_of(plan) < simplicity_of(recommended.candidate.plan);
}

const Leaf* OpenFamilies::find(const Least& least, const Family& family) {
  const auto at = least.find(family);
  return at == least.end() ? nullptr : &at->second;
}

const Leaf* OpenFamilies::least() const {
  const auto at = std::min_element(least_.begin(), least_.end(), [](const auto& a, const auto& b) {
    return a.second.candidate.bound < b.second.candidate.bound;
  });
  return at == least_.end() ? nullptr : &at->second;
}

}  // namespace zplan
