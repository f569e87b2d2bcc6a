// StepSplit: where the time of a step goes, in the terms of training, and the operations it is due
// to.
//
// It is that of one rank of the stage with the busiest compute lane (TimeSplit). Every instant of
// the steady step counts once, by what that lane does:
//   it runs an op           the kind of the op: products, attention, other kernels. Attention is
//   the
//                           fused kernel, or the products and the softmax of scores where they are
//                           stored; what slows a kernel down beside it counts as the kernel
//   it is idle              the op that its next op waits for: of the lanes that the next op
//                           depends on the one that is last, from there to the one that this one
//                           waits for, and so on back to an op that runs, which is exposed; to one
//                           that the host is about to launch (launch); or to one that stands ready
//                           while the stage at its other end does not (waits: the pipeline bubble).
//                           Where the host itself waits, for the device or for room in a queue, it
//                           is the op that the host waits for
// So the parts add up to the period, to the picosecond where the step is steady. What the simulator
// adds to a period that has not settled (simulate.h) counts as waits.
//
// Communication counts by the ranks that it joins: tensor or context parallel ranks, replicas that
// share experts (rows of tokens), stages, and data parallel ranks (gathers and reductions of
// states, norms). Picoseconds until shares are taken. Leaves out: time that is hidden behind
// compute, which `LaneReport` has.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/program/job/job.h"
#include "sim/simulate.h"

namespace zplan::sim {

enum class StepUse : std::uint8_t {
  kProducts,
  kAttention,
  kMemory,  // kernels bound by the memory of the device: norms, activations, updates there
  kLaunch,
  kData,
  kTensor,
  kContext,
  kExpert,
  kPipeline,
  kWait,
  kHost,
  kCopies,
  kDrives,
};
inline constexpr int kStepUseCount = 13;
std::string_view name(StepUse use);  // "matrix products", "exposed data parallel communication"
std::string_view key(StepUse use);   // "products", "data_parallel"
// Whether the compute lane is busy.
constexpr bool computes(StepUse use) { return use <= StepUse::kMemory; }

// All operations of one role that hold the step up alike.
struct StepOp {
  StepUse use{};
  Role role{};
  HeldBy by{};
  std::int64_t runs = 0;  // instances per step
  SimTime time{0};        // in StepSplit::steps steps
};

struct StepSplit {
  int stage = 0, stages = 1;
  Seconds step{};
  std::array<Seconds, kStepUseCount> parts{};  // of a step, by StepUse; add up to `step`
  std::vector<StepOp> ops{};                   // the longest first
  int steps = 1;                               // that `ops` are of
  Seconds unsettled{};                         // of the waits: no operation is named

  Seconds part(StepUse use) const { return parts[static_cast<std::size_t>(use)]; }
  double share(StepUse use) const { return step.value > 0 ? part(use).value / step.value : 0; }
  Seconds compute() const;
};

// What time that is due to a node counts as. `mesh`: of its Job.
StepUse use_of(const Program& program, const Node& node, HeldBy by, const Mesh& mesh);

// Of a simulation with SimOptions::split_by_op.
StepSplit step_split(const Job& job, const SimResult& result);

}  // namespace zplan::sim
