// Assigns offsets to tenants of one slab: tenants whose lifetimes overlap never share a byte.
// Offsets are sums and differences of sizes and the budget: multiples of an alignment when these
// are.
//
// Greedy: tenants by decreasing size (then size x duration, then duration), each into the gaps its
// living neighbours leave. Within a budget of live peak x (1 + slack) it takes the range whose
// tenants are furthest away in program order, before or after: whoever comes second there waits
// for the other, and the longer ago that was the less it waits. When that does not stay within the
// budget it takes the lowest range that fits, moves whoever then sticks out at the top to the front
// of the order and tries again; the best attempt is kept. Deterministic.
// Least slab is not promised (the problem is NP-hard [Garey79 SR2]); the goal is 1.05 live peaks.
#pragma once

#include <span>
#include <vector>

#include "planner/core/units.h"
#include "planner/place/lifetime.h"

namespace zplan {

struct Tenant {
  Bytes size;
  Lifetime life;
};

struct Packing {
  std::vector<Bytes> offset;  // of each tenant
  Bytes slab{0};              // largest offset + size
};

// `positions`: length of the step, for the distance from its end to its begin. `budget`: the slab
// up to which distance in program order is worth more than bytes.
Packing pack(std::span<const Tenant> tenants, NodeIndex positions, Bytes budget);

}  // namespace zplan
