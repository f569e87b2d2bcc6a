// The share of one member of a collective (exec/comm/collective.h) between ranks whose memory this
// device reaches: sums are taken in index order, those of 16-bit types in float, and rounded once.
// No share reads what another writes.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "exec/comm/collective.h"

namespace zplan::exec::cuda {

inline constexpr int kMostMembers = 16;

// Throws Error(kBadInput) for more members than that where sums are taken.
void launch_share(cudaStream_t stream, std::span<const CollectiveCall> members, int index);

}  // namespace zplan::exec::cuda
