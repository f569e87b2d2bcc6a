// A family of plans as people write it: as rejections print it, "ZeRO-3 gpu+cpu tp", or in words
// for what its plans have, "pipeline", "offload nvme". What a printed name does not have its plans
// do not have either; words leave all else open.
#pragma once

#include <string>
#include <vector>

namespace zplan {

// Of constraints (planner/plan/constraint.h) what they take.
struct FamilyWords {
  std::vector<std::string> only, never;
  std::vector<std::string> recipes;  // as Pins::recipes; empty: as asked for otherwise
  bool empty() const { return only.empty() && never.empty() && recipes.empty(); }
};

// Throws Error, one line, naming the nearest word.
FamilyWords parse_family(const std::string& text);

}  // namespace zplan
