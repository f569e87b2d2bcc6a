// What the words of a source on recomputation and offload (`recompute_detail`) say of a Plan:
// LLMQ's options, "--recompute-ffn", and MaxText's policies, "save_qkv_proj".
#pragma once

#include <cstdint>
#include <string_view>

#include "planner/plan/plan.h"
#include "planner/validate/runs.h"

namespace zplan {

// Whether the words name an option.
bool says(const RunRecord& run, std::string_view option);

// The operators of a layer whose results are not kept; none: the words name none.
OperatorSet recomputed_operators(const RunRecord& run);
// Layers that are recomputed whole, of "10 of 80 layers"; 0: the words count none.
std::int32_t recomputed_layers(const RunRecord& run);
// Whether the citation's path of a test names the option that compiles the cross entropy,
// "cross_entropy_loss_fusion" [MegatronCore].
bool compiles_loss(const RunRecord& run);
// Pieces of the output head; 1: not said.
std::int32_t head_chunks(const RunRecord& run);
// Optimizer states that an update on the GPU fetches from the CPU.
OffloadedStates offloaded_states(const RunRecord& run);

}  // namespace zplan
