// The share of one member of a collective (exec/comm/collective.h), on one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "exec/comm/collective.h"

namespace zplan::exec::cuda {

void launch_share(cudaStream_t stream, std::span<const CollectiveCall> members, int index);

}  // namespace zplan::exec::cuda
