// What one step of a Job moves between the tiers, by state: bytes of one rank, both ways, counted
// from the copies, collectives and host kernels of its Program, beside the flop of its products.
//
//   between GPUs   gathers of parameters and sums of gradients over ranks, as each rank sends them
//   GPU - CPU      copies between host and device
//   CPU - NVMe     reads and writes of the drives
//   CPU memory     what kernels on the host read and write there
// The state follows the role of the operation: kept layer inputs and results are activations, what
// belongs to the update and the gradient norm is the optimizer's, gradients and updated parameters
// on their way then included; the rest are parameters and gradients. What owners of layers do
// counts as the ranks' mean, and takes as long as one after the other takes. Batches, losses and
// scalars are left out, as is what moves between tensor, context or pipeline parallel ranks and
// experts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/core/units.h"
#include "planner/cost/cost_model.h"

namespace zplan {

enum class MovedState : std::uint8_t { kParameters, kOptimizer, kActivations };
inline constexpr int kMovedStateCount = 3;
enum class Hop : std::uint8_t { kGpus, kGpuCpu, kCpuNvme, kCpuMemory };
inline constexpr int kHopCount = 4;

std::string_view name(MovedState state);  // "parameters, gradients"
std::string_view name(Hop hop);           // "GPU - CPU"

struct TierTraffic {
  MovedState state = MovedState::kParameters;
  Hop hop = Hop::kGpuCpu;
  int stage = 0;
  double nearer = 0, farther = 0;  // bytes of one rank per step, to the GPU and away from it
  double flops = 0;                // of one rank's products and attention per step
  Seconds compute{};               // of its compute lane, alone
  Seconds busy{};                  // of these transfers one after the other, alone, starts left out
  int ranks_in_node = 1;           // of the stage, that move their part at the same time
  CostLink link{};                 // that limits most of it; no name: none does

  double bytes() const { return nearer + farther; }
  double intensity() const { return flops / bytes(); }  // flop per byte
  BytesPerSecond rate() const { return {bytes() / busy.value}; }
  FlopsPerSecond compute_rate() const { return {flops / compute.value}; }
};

// Of each state and hop with bytes the stage where they are the most per flop.
std::vector<TierTraffic> tier_traffic(const CostModel& model);
// Of a hop the one whose transfers take longest; null: there is none.
const TierTraffic* longest(const std::vector<TierTraffic>& traffic, Hop hop);

// What copies between the tiers move in one step, of all ranks.
struct CopiedBytes {
  Hop hop = Hop::kGpuCpu;
  double nearer = 0, farther = 0;  // to the GPU and away from it
};
// Of the hops GPU - CPU and CPU - NVMe those with bytes.
std::vector<CopiedBytes> copied_per_step(const Job& job);

// How often a micro-step loads the parameters of the layers of a stage: from their home to the GPU
// or, where that is the GPU, from other ranks. 0: they are where they are used.
double parameter_loads(const Job& job, int stage);
// How often it stores their gradients.
double gradient_stores(const Job& job, int stage);

}  // namespace zplan
