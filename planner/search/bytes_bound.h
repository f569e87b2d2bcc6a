// Bytes that no lowering and placement of a plan can undercut, in closed form: what proves that a
// plan cannot fit without lowering it. Never above the placed slab (tested).
//
// Three moments are bounded, the greatest counts:
//   update         all states: parameters, gradients, optimizer, each over the ranks that share a
//                  copy where ZeRO cuts it [Rajbhandari20 sec 5], on the tier of its home
//   layer backward states (gradients once they persist) + what forward keeps for the micro-batches
//                  in flight [Narayanan21 sec 2.2] or the checkpoints and one replayed layer
//                  [Chen16] + the gathered parameters and the gradients on their way
//   head backward  states + what forward keeps + logits + the gathered head
// Tensor parallel ranks are counted as if they cut everything evenly, but for activations that are
// h wide without sequence parallelism [Korthikanti22 sec 4].
// Sizes beyond all reason saturate at kMostBytes.
// Left out: what every tensor parallel rank holds alike, shard padding, staging between tiers,
// tokens, scalars, gathered activations, fragmentation.
#pragma once

#include <vector>

#include "models/model_config.h"
#include "planner/plan/plan_schedule.h"
#include "planner/search/memory_use.h"

namespace zplan {

// Bytes of one rank, by stage. The plan must be legal.
std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model);
// The same where the pieces of the stages are known.
std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model,
                                   const StagePieces& stages);

}  // namespace zplan
