// Decisions pinned by the user, and constraints on the others; the rest is free.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/units.h"
#include "planner/plan/choices.h"
#include "planner/plan/constraint.h"

namespace zplan {

inline constexpr std::string_view kAnyRecipe = "any";

// The plans that a software can run. Its functions are called from several threads at a time.
struct SoftwarePlans {
  std::string title;  // of the software, "torchtitan 2025"
  // Returns the plan as the software runs it, with what it decides by itself; nothing: it cannot
  // run it.
  std::function<std::optional<Plan>(const Plan&)> as_run;
  // Says why it cannot run a plan: "it runs /zero_stage 3 in place of 1".
  std::function<std::string(const Plan&)> why_not;

  bool has(const Plan& plan) const { return as_run(plan) == plan; }
};

// The software runs none of the plans that the pins leave.
class CannotRun : public Error {
 public:
  explicit CannotRun(const std::string& why) : Error(ExitCode::kBadInput, why) {}
};

// Decisions are named by their pointers, "/parallel/tp": those of a row of choices.h.
class Pins {
 public:
  // `value` of the decision's type, or of one that converts: 2, "cpu", Tier::kCpu.
  template <typename T>
  void set(std::string_view pointer, const T& value) {
    set_setting(decision(pointer), to_setting(value));
  }
  void set_setting(const Decision& row, const Setting& value);

  bool has(std::string_view pointer) const { return is_set_[index(decision(pointer))]; }
  // Of what is pinned; plain elsewhere.
  const Plan& values() const { return values_; }
  // What is pinned, or `free`.
  template <typename T>
  T get(std::string_view pointer, T free) const {
    const Decision& row = decision(pointer);
    return is_set_[index(row)] ? from_setting<T>(row.field.get(values_)) : free;
  }
  // Makes a plan as pinned.
  void apply(Plan& plan) const;

  // Whether units of more layers and in more tiles are tried, too: not where a number is pinned.
  bool tunes_units = true;
  // Units as large as a bucket of gradients may be, in place of a pinned unit (search/bucket.h).
  std::optional<Bytes> bucket;
  // Ranks of a plan; 0: as many as the cluster has devices, or as pinned counts make.
  std::int64_t ranks = 0;
  // That every plan must keep.
  std::vector<Constraint> constraints;
  std::optional<SoftwarePlans> software;
  // Returns whether a plan keeps the constraints and is one that the software can run.
  bool allows(const Plan& plan) const;
  // Of kRecipeNames, or kAnyRecipe alone: all that the kernel set has. None: standard.
  std::vector<std::string> recipes;

 private:
  static std::size_t index(const Decision& row) {
    return static_cast<std::size_t>(&row - std::begin(kChoices));
  }

  Plan values_;
  std::array<bool, std::size(kChoices)> is_set_{};
};

}  // namespace zplan
