// Which kernel sets a search tries: the device's own, or beside it the one that differs in how it
// computes attention (other_attention), where heads have no fused kernel for matrix units.
//
//   a library takes the heads (fused_attention.h)   the device's own
//   neither a library nor an own kernel does        the one that stores scores
//   the software's own kernels on vector units do   the one that stores scores, where it takes no
//                                                   longer even if it computes them again for
//                                                   backward, and they are few beside the memory;
//                                                   the fused one, where that takes no longer; else
//                                                   both, and the search chooses
//
// Libraries are cuDNN for zplan itself, FlashAttention [Dao23] for other software, which has no
// kernels of its own (StackRates::vectors_forward). A set that is pinned is the only one, and so is
// the device's where it stores scores for software that never fuses attention. Times are floors
// (time_floor.h) of one sequence on one device.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

// One or two, the faster one first.
std::vector<std::string> kernel_sets_tried(const ModelConfig& model, const Cluster& cluster,
                                           const Pins& pins);

// Why the plan's set is not that of the device, or that its attention runs on vector units; empty:
// there is nothing to say.
std::string attention_words(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

// The plan's kernel set and why it has it, one sentence; of every plan.
std::string kernel_set_words(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

}  // namespace zplan
