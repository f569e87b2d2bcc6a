// Why a plan has no Job, and how near it comes to having one: of plans that differ in what is not
// pinned, the one that keeps most rules says what the pins themselves rule out.
#pragma once

#include <optional>
#include <string>

#include "planner/plan/plan.h"

namespace zplan {

struct Refusal {
  std::string why;  // as illegal() says it
  int kept = 0;     // rules before the one that is broken, in the order of legality.cpp
};

std::optional<Refusal> refusal_of(const Plan& plan, const ModelShape& model);

}  // namespace zplan
