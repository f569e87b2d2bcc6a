// What a framework holds on a GPU beside the buffers of a Job, as a replay of its allocator is told
// (allocator_replay.h), and whose request is whose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "planner/core/units.h"

namespace zplan {

enum class Holder : std::uint8_t {
  kJob,
  kAlways,
  kLoss,
  kResidual,
  kAttention,
  kUpdate,
  kRmsNorm,
  kGated,
  kGelu,
  kScores,
  kRepeated,
  kPasses,
  kFusedQkv,
  kEnds,
  kGather,
  kExperts,
};
inline constexpr std::size_t kHolderCount = 16;

struct HolderRow {
  Holder holder;
  std::string_view name;  // "rms_norm"
  std::string_view words;
};
std::span<const HolderRow> holders();  // in order

struct HeldBesides {
  Bytes always{0};       // from before the step on
  double loss = 0;       // bytes per logit, while the loss is worked out
  double residual = 0;   // per element of what the MLP's norm reads, as long as that is kept
  double attention = 0;  // per element of what fused attention gives, as long as that is kept
  double update = 0;     // per parameter that this GPU updates, during norm and update
  bool gradients_stay =
      false;                  // gradients at home are held all the time, not from their first write
  bool own_workspace = true;  // what the Job declares as scratch of kernels counts
  // Bytes per element of what a kernel gives, as long as that is kept: an RMSNorm, what stands
  // between the products of an MLP that is gated or not, unfused softmax.
  double rms_norm = 0;
  double gated = 0;
  double gelu = 0;
  double scores = 0;
  // Per element that keys and values have less than if each query had its own, as long as unfused
  // probabilities are kept.
  double repeated = 0;
  // Per element of what softmax's gradient reads, beside it.
  double passes = 0;
  double fused_qkv = 0;  // per element of queries and keys, as long as fused attention's are kept
  // Units outside the layers that are gathered: all come with the first of them and stay to the end
  // of backward; their gradients leave together there.
  bool ends_stay = false;
  // Per element of a layer's unit that is gathered: what it comes into, until the next one comes.
  double gather = 0;
  bool reduced_stay = false;  // what a unit's gradients leave from is held until the next one's do
  // Says whether the router's weights multiply before the second product of experts, so that
  // nothing that experts give is kept for their gradient.
  bool early_weights = false;
  // Buffers that activations gathered over tensor parallel ranks share, held all the time.
  std::int32_t gather_buffers = 0;
  // Per parameter whose shards are gathered after the update, in one piece.
  double update_gather = 0;
  // Launches of each node of the program, and by how many the host is ahead of the device. What a
  // collective reads or writes is free again when the device has come to where the host released
  // it. Empty: at once.
  std::vector<double> launches{};
  double queue = 0;
  bool gives_back = false;  // the least segments count with which the allocator gets through
};

}  // namespace zplan
