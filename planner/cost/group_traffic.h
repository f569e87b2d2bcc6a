// What a rank of a stage sends to others in a step, by the group it meets and the link that is used
// most: counted from the collectives and transfers of the Job, elements as in
// tests/golden/communication_volume_test.cpp. In rings of n ranks over B elements an all-gather or
// a reduce-scatter sends B (n - 1) / n, an all-reduce twice that [Patarasuk09], an all-to-all all
// but the own part, a broadcast, a reduction and a shift all of B; of a transfer its sender counts.
// Owner-only transfers count as done by the representative.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"

namespace zplan {

// All operations of a role.
struct GroupOp {
  Role role{};
  std::int64_t runs = 0;           // per step
  double elements = 0, bytes = 0;  // sent in a step
};

struct GroupTraffic {
  std::string group;                            // "tp", "dp", or the axis of a transfer, "pp"
  std::int32_t ranks = 0;                       // that meet
  bool states = false;                          // parameters and gradients; else activations
  double gathered = 0, reduced = 0, other = 0;  // elements per step
  double bytes = 0;                             // per step
  CostLink link{};                              // that carries most of it; no name: none does
  double link_bytes = 0;  // that it carries of this per step, of all ranks that use it
  std::vector<GroupOp> ops{};

  double elements() const { return gathered + reduced + other; }
  // (n - 1) / n: what a volume of whole buffers is multiplied by in a ring.
  double ring() const { return ranks > 0 ? (ranks - 1.0) / ranks : 0; }
};

// The most bytes first. Norms, losses and other single values are left out.
std::vector<GroupTraffic> group_traffic(const CostModel& model, int stage);

}  // namespace zplan
