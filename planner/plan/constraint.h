// What plans may be beyond pins, as typed: "zero=2,3", "tp=2..8", "offload". A constraint names a
// decision (the option that pins it, without dashes) and values of it, of which a plan must have
// one or none; or a trait, which it must have or not.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/plan/decision.h"
#include "planner/plan/plan.h"

namespace zplan {

class Constraint {
 public:
  // --only and --not. Throw Error, one line.
  static Constraint only(const std::string& typed);
  static Constraint never(const std::string& typed);

  bool allows(const Plan& plan) const { return holds(plan) == only_; }
  std::string option() const;  // "--only zero=2,3"

 private:
  using Trait = bool (*)(const Plan& plan);
  struct OneOf {
    const Decision* row = nullptr;
    std::vector<std::string> values;  // words as setting_text has them
  };

  Constraint(const std::string& typed, bool only);
  bool holds(const Plan& plan) const;

  std::string typed_;
  bool only_ = true;
  std::variant<Trait, OneOf> what_;
};

}  // namespace zplan
