// Which ranks form a group, in index order. The order is that of (stage, dp index, tp index) and
// not of rank numbers, so sums do not depend on the rank order of a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/program/job.h"

namespace zplan::exec {

struct Membership {
  std::vector<std::int32_t> ranks;  // by index
  int own_index = 0;
};

Membership membership(const Job& job, GroupKind kind, std::int32_t rank);

// The rank a send of `rank` to a stage goes to, or a receive comes from.
inline std::int32_t peer_rank(const Job& job, std::int32_t rank, std::int32_t stage) {
  Coordinates at = job.coordinates_of(rank);
  at.stage = stage;
  return job.rank_of(at);
}

}  // namespace zplan::exec
