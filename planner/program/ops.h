// The vocabulary of a training step: data types, memory tiers, lanes, roles, kernels, collectives.
// Everything here is an enumeration or a small value; each has a name (names.cpp) that the text
// form, the Timeline and the reports use. Nothing here has a duration.
//
// Glossary of shape letters: b sequences per micro-batch, s sequence length, T = b*s tokens,
// h hidden, a heads, d head size, V vocabulary (Vp padded), L layers, p pipeline stages, d data
// parallel size (dp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "planner/core/units.h"

namespace zplan {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBf16, kI32 };
inline constexpr int kDTypeCount = 5;
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
  kCompute,      // GPU stream
  kCommGather,   // parameter gathers
  kCommReduce,   // gradient reductions and small all-reduces
  kP2pForward,   // activations between stages
  kP2pBackward,  // activation gradients between stages
  kH2d,
  kD2h,
  kCpu,
};
inline constexpr int kLaneCount = 8;

enum class Access : std::uint8_t { kRead, kWrite, kUpdate, kScratch };
constexpr bool writes(Access a) { return a != Access::kRead; }
constexpr bool reads(Access a) { return a == Access::kRead || a == Access::kUpdate; }

// A role says what a node is for: phase of the step, part of the model, action. It is stable under
// plan changes and is what Timelines of different plans are joined by.
enum class Phase : std::uint8_t { kBegin, kForward, kRecompute, kBackward, kUpdate, kEnd };
enum class Part : std::uint8_t {
  kBatch,
  kScalars,
  kEmbedding,
  kPosition,
  kLayer,  // the whole layer: its gather unit, its checkpoint
  kAttentionNorm,
  kQkv,
  kAttention,
  kProjection,
  kAttentionResidual,
  kMlpNorm,
  kFc1,
  kGelu,
  kFc2,
  kMlpResidual,
  kFinalNorm,
  kHead,
  kLoss,
  kBoundary,  // between pipeline stages
  kGradientNorm,
};
enum class Action : std::uint8_t {
  kCompute,
  kInputGradient,
  kWeightGradient,
  kZero,
  kGather,
  kReduce,
  kAccumulate,
  kSend,
  kReceive,
  kUpload,    // host to device
  kDownload,  // device to host
  kSquare,
  kClip,
  kAdam,
  kReport,
};
struct Role {
  Phase phase;
  Part part;
  Action action;
  friend constexpr auto operator<=>(const Role&, const Role&) = default;
};

// Kernels. One row each in kernel_table.h; operand order is documented there.
enum class KernelId : std::uint8_t {
  kLoadBatch,
  kStepScalars,
  kEmbeddingForward,
  kLayerNormForward,
  kLinearForward,
  kAttentionForward,
  kGeluForward,
  kResidualAdd,
  kHeadForward,
  kCrossEntropy,
  kHeadInputGradient,
  kHeadWeightGradient,
  kLayerNormBackward,
  kLinearInputGradient,
  kLinearWeightGradient,
  kAttentionBackward,
  kGeluBackward,
  kEmbeddingBackward,
  kFillZero,
  kAccumulate,
  kSumSquares,
  kClipCoefficient,
  kAdamW,
  kReport,
};
inline constexpr int kKernelCount = 24;

enum class CollectiveKind : std::uint8_t { kAllGather, kReduceScatter, kAllReduce };

// Which ranks take part. Coordinates of a rank are (dp index, stage).
enum class GroupKind : std::uint8_t {
  kData,       // same stage, all dp indices
  kEmbedding,  // same dp index, first and last stage: the two copies of a tied embedding
  kWorld,
};

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
std::string_view name(GroupKind kind);
std::string name(Role role);  // "forward.qkv.compute"

}  // namespace zplan
