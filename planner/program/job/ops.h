// The vocabulary of a training step: data types, memory tiers, lanes, roles, kernels, collectives.
// Everything here is an enumeration or a small value; each has a name (names.cpp) that the text
// form, the Timeline and the reports use. Nothing here has a duration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "planner/core/units.h"

namespace zplan {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBf16, kI32, kU8 };  // kU8: masks
inline constexpr int kDTypeCount = 6;
Bytes size_of(DType dtype);

// Where a buffer lives. kGpu is the device's own memory; on a CPU backend it is a slab of the
// profile's capacity.
enum class Tier : std::uint8_t { kGpu, kCpu, kNvme };
inline constexpr int kTierCount = 3;

// What a buffer holds; the memory report splits every tier by it.
enum class Category : std::uint8_t {
  kParameters,   // 16/32-bit parameters used by forward and backward (full or shard)
  kGradients,    // accumulated gradients (full or shard)
  kOptimizer,    // master copy and moments
  kActivations,  // forward results kept or recomputed for backward, and their gradients
  kCheckpoints,  // layer inputs kept for recomputation
  kGathered,     // parameters gathered for use, gradients before reduction, staging of both
  kWorkspace,    // scratch of kernels
  kInput,        // tokens, step scalars, loss
};
inline constexpr int kCategoryCount = 8;

// An in-order queue of one rank. Nodes of one lane run one after the other in program order;
// nodes of different lanes are ordered by `after` edges only.
enum class Lane : std::uint8_t {
  kCompute,     // GPU stream
  kCommGather,  // parameter gathers
  kCommReduce,  // gradient reductions and small all-reduces
  kCommTensor,  // activations between ranks that work on a layer together
  // Between neighbours of a pipeline, up to the next or down to the one before: activations and
  // their gradients. Each way, and each end of it, has a lane of its own, so that no message waits
  // for the partner of another.
  kSendForwardUp,
  kSendForwardDown,
  kSendBackwardUp,
  kSendBackwardDown,
  kReceiveForwardUp,
  kReceiveForwardDown,
  kReceiveBackwardUp,
  kReceiveBackwardDown,
  kH2d,
  kD2h,
  kCpu,
  kIoRead,   // NVMe to host memory
  kIoWrite,  // host memory to NVMe
  kInput,    // the host thread that loads batches; free while the CPU lane updates
};
inline constexpr int kLaneCount = 18;

// The lanes of transfers.
inline constexpr int kTransferWays = 4;
constexpr bool sends(Lane lane) {
  return Lane::kSendForwardUp <= lane && lane <= Lane::kSendBackwardDown;
}
constexpr bool receives(Lane lane) {
  return Lane::kReceiveForwardUp <= lane && lane <= Lane::kReceiveBackwardDown;
}
constexpr bool is_transfer(Lane lane) { return sends(lane) || receives(lane); }
// Whether what goes over it comes to the next place along the axis, not to the one before.
constexpr bool leads_up(Lane lane) {
  return is_transfer(lane) &&
         (static_cast<int>(lane) - static_cast<int>(Lane::kSendForwardUp)) % 2 == 0;
}
// The lane on which the other end takes part; of no transfer the lane itself.
constexpr Lane partner(Lane lane) {
  const int ways = sends(lane) ? kTransferWays : receives(lane) ? -kTransferWays : 0;
  return static_cast<Lane>(static_cast<int>(lane) + ways);
}
// Of a transfer the lane of the end that sends.
constexpr Lane sending_lane(Lane lane) { return receives(lane) ? partner(lane) : lane; }

// Whether kernels of the lane run on the host.
constexpr bool is_host(Lane lane) { return lane == Lane::kCpu || lane == Lane::kInput; }
// Whether the host's launching thread starts the ops of a lane: those of the host itself and of the
// drives have threads of their own.
constexpr bool is_launched(Lane lane) {
  return !is_host(lane) && lane != Lane::kIoRead && lane != Lane::kIoWrite;
}

enum class Access : std::uint8_t { kRead, kWrite, kUpdate, kScratch };
constexpr bool writes(Access a) { return a != Access::kRead; }
constexpr bool reads(Access a) { return a == Access::kRead || a == Access::kUpdate; }

// A role says what a node is for: phase of the step, part of the model, action. It is stable under
// plan changes and is what Timelines of different plans are joined by.
enum class Phase : std::uint8_t { kBegin, kForward, kRecompute, kBackward, kNorm, kUpdate, kEnd };
enum class Part : std::uint8_t {
#define ZPLAN_PART(Id, word) k##Id,
#include "planner/program/job/parts.h"
};
enum class Action : std::uint8_t {
  kCompute,
  kInputGradient,
  kWeightGradient,
  kBiasGradient,
  kZero,
  kGather,
  kReduce,
  kAccumulate,
  kSend,
  kReceive,
  kUpload,    // host to device
  kDownload,  // device to host
  kRead,      // NVMe to host
  kWrite,     // host to NVMe
  kMove,      // within a tier
  kCast,
  kSquare,
  kClip,
  kAdam,
  kReport,
  kHold,         // keeps what a later pass or the next step reads
  kGatherRanks,  // activations, over the tensor parallel ranks
  kSumRanks,
  kSumShared,     // gradients of parameters that these ranks hold alike
  kSumCopies,     // over the copies of sharding groups
  kReadGradient,  // of what is read and written beside each other, each
  kReadMaster,
  kReadMoment1,
  kReadMoment2,
  kWriteMaster,
  kWriteMoment1,
  kWriteMoment2,
  kCastGradient,
  kDrop,      // dropout beside what the part computes
  kMoveBias,  // beside the weights of the same part
  kExchange,  // activations: each rank gives every other a part
  kPack,      // what is sent in parts, each part by itself
  kUnpack,    // the other way round
  kChoose,    // of a router: experts of a token; of a loss: what it is of
  kPlace,     // their rows
  kBalance,   // what the auxiliary loss adds; what moves the bias of a router's choice
  kJoin,      // the stretches of each sequence, put one after the other
  kCut,       // and apart
  kSgd,       // an update without second moments
  kMomentum,  // what an update is made of
  kGatherUpdate,
  kOrthogonalise,
  kFactorSums,     // of an update: squares of rows and columns, added up
  kReduceFactors,  // over the ranks
  kFactors,        // that they make
  kReduceUpdate,   // its squares, over the ranks
  kScaleUpdate,
  kRoundInput,  // operands of products, to fp8
  kRoundWeight,
  kRoundGradient,
  kEncode,  // an operand, to codes that are kept or sent
  kDecode,
  kDequantise,  // a matrix of 4-bit codes, to the compute type
  kLoraDown,    // beside a product: what the first factor of LoRA gives
  kLoraScale,
  kLoraUp,  // and the second
  kLoraDownWeight,
  kLoraUpWeight,
  kReadScale1,  // of moments in 8 bits
  kReadScale2,
  kWriteScale1,
  kWriteScale2,
  kGatherTokens,  // of the ranks that share experts
  kSumTokens,
  kBeforeGather,  // marks of the compute lane, beside which such communication is not to run
  kAfterGather,
  kBeforeReduce,
  kAfterReduce,
  kWholeIsKept,  // a mark to which all of a buffer is kept, whatever part of it a rank still uses
};
struct Role {
  Phase phase;
  Part part;
  Action action;
  friend constexpr auto operator<=>(const Role&, const Role&) = default;
};

// Kernels, in the order of their rows.
enum class KernelId : std::uint8_t {
#define ZPLAN_KERNEL(Id, ...) k##Id,
#include "planner/program/kernels/rows.h"
};
inline constexpr int kKernelCount = 0
#define ZPLAN_KERNEL(...) +1
#include "planner/program/kernels/rows.h"
    ;

// Collectives, in the order of their rows; what each does is said there (collectives.h).
enum class CollectiveKind : std::uint8_t {
#define ZPLAN_COLLECTIVE(Id, ...) k##Id,
#include "planner/program/job/collective_rows.h"
};
inline constexpr int kCollectiveKindCount = 0
#define ZPLAN_COLLECTIVE(...) +1
#include "planner/program/job/collective_rows.h"
    ;

std::string_view name(DType dtype);
std::string_view name(Tier tier);
std::string_view name(Category category);
std::string_view name(Lane lane);
std::string_view name(Access access);
std::string_view name(Phase phase);
std::string_view name(Part part);
std::string_view name(Action action);
std::string_view name(KernelId kernel);
std::string_view name(CollectiveKind kind);
std::string name(Role role);  // "forward.qkv.compute"

}  // namespace zplan
