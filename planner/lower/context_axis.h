// The axes of context parallel ranks. Each rank has an equal part of every sequence for all but the
// core of attention. As far as parameters, gradients and ZeRO go they are replicas like those along
// the data axis [Jacobs23 sec 3.3].
//
//   cp    ranks that exchange heads for tokens [Jacobs23 sec 3.1], with parts in the order of their
//         places (blocks/context_parallel.h)
//   cp.1  ranks of a ring, around which keys and values go [Liu23] (blocks/ring_attention.h); then
//   cp.0  those that exchange heads, if there are any, nearer to each other [Fang24]
//
// With rings every sequence is cut into two stretches for each rank, as far from its begin as from
// its end (stretches.h).
#pragma once

#include <string_view>

#include "planner/plan/plan.h"

namespace zplan {

inline constexpr std::string_view kContextAxis = "cp";
inline constexpr std::string_view kRingAxis = "cp.1";

// Of the ranks that exchange heads.
inline std::string_view exchange_axis(const Plan& plan) {
  return plan.parallel.ring == 1 ? kContextAxis : "cp.0";
}

}  // namespace zplan
