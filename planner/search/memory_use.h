// The bytes of the ranks of a job against the capacities of a cluster.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planner/place/lifetime.h"
#include "planner/search/node_fill.h"
#include "planner/search/search.h"

namespace zplan {

using TierBytes = std::array<Bytes, kTierCount>;
// Returns the place of a tier in what is kept by tier.
constexpr std::size_t index(Tier tier) { return static_cast<std::size_t>(tier); }

// Where the bytes of a rank or node saturate; adding a reserve still fits 64 bits.
inline constexpr Bytes kMostBytes{std::int64_t{1} << 62};

// Index of the class that needs most of the GPU; of the fill that needs most of a host tier.
std::size_t worst_class(const std::vector<TierBytes>& per_rank);
std::size_t worst_fill(const std::vector<TierBytes>& per_rank, const std::vector<NodeFill>& fills,
                       Tier tier);

// `per_rank`: bytes of one rank, by stage. by_category stays empty.
MemoryUse memory_use(const std::vector<TierBytes>& per_rank, const std::vector<NodeFill>& fills,
                     const Cluster& cluster);

// The tier over its capacity by the largest factor, with needed and available; or nothing.
std::optional<Infeasible> worst_tier(const MemoryUse& use);

// `lives`: lifetimes(job).
std::optional<Infeasible> check_fit(const Job& job, const JobLifetimes& lives,
                                    const Cluster& cluster);

}  // namespace zplan
