// The answer of `zplan what-if`: the plan for a cluster and that for the cluster with other
// hardware, each of them on both. JSON schema "zplan.what_if/1".
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/frame/sheet.h"
#include "planner/plan/plan_difference.h"

namespace zplan {

// A plan on a cluster: its step, or why it cannot be there.
struct Crossing {
  std::optional<sim::SimResult> sim;
  std::string lacking;
};

enum Hardware : std::uint8_t { kAsItIs, kChanged };

struct WhatIf {
  Answer before, after;
  // By whose plan it is, then by where. Of a question that has no plan its own cell says why, the
  // other is empty.
  std::array<std::array<Crossing, 2>, 2> on;
  struct Alone {
    std::string quantity, value;
    Seconds step{};
  };
  std::vector<Alone> alone;  // several changes, one at a time: the plan of before
  std::vector<DecisionChange> decisions;
};

WhatIf find_what_if(const WhatIfCommand& command);

// The lesser of the two plans' steps there; nothing: neither fits.
std::optional<Seconds> least_step(const WhatIf& found, Hardware where);

Sheet what_if_sheet(const WhatIf& found);

}  // namespace zplan
