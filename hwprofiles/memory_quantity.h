// The quantities of which a stack's memory is made, one row each (stack_memory.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hwprofiles/stack_memory.h"

namespace zplan {

inline constexpr int kMostCapability = 999;  // that a file may name

enum class MemoryQuantity : std::uint8_t {
  kLibraries,
  kOverlapLibraries,
  kBuckets,
  kCommunicator,
  kContext,
  kLoss,
  kCompiledLoss,
  kResidual,
  kAttention,
  kTokenPairs,
  kUpdateWhole,
  kUpdateShard,
  kGradientsStay,
  kExpandable,
  kPinnedHost,
  kLastRank,
  kResidualError,
  kRmsNorm,
  kGated,
  kGelu,
  kScores,
  kRepeated,
  kPasses,
  kFusedQkv,
  kEndsStay,
  kGather,
  kReducedStay,
  kGatherBuffers,
  kReducer,
  kUpdateGather,
  kCollectivesLag,
  kGivesBack,
  kEarlyWeights,
  kGroupedLibraries,
  kUnevenExperts,
  kWeightCodes,
  kHostBuffers,
  kUnitBuckets,
  kWholeUnitBuckets,
};
inline constexpr std::size_t kMemoryQuantityCount = 39;

struct MemoryQuantityRow {
  MemoryQuantity quantity;
  std::string_view name;  // "libraries"
  bool bytes;             // a size with a unit; else a number
  double most;
  std::string_view meaning;
};
std::span<const MemoryQuantityRow> memory_quantities();

}  // namespace zplan
