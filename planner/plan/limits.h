// How large a plan may be: the limits that plan files, options and legality share; those on the
// counts of a Job come with it. [assumed] each beyond anything trained; together they keep all
// products of sizes within 64 bits.
#pragma once

#include <cstdint>

#include "planner/program/job/limits.h"

namespace zplan {

inline constexpr std::int64_t kMaxExpertFactor = 1000;                  // of capacity, of imbalance
inline constexpr std::int64_t kMaxGlobalBatch = std::int64_t{1} << 20;  // sequences per step
inline constexpr std::int64_t kMaxSequence = std::int64_t{1} << 20;     // tokens
inline constexpr std::int64_t kMaxTokensPerStep = std::int64_t{1} << 32;  // of all replicas

inline constexpr std::int64_t kMaxOptimizerBlock = 4096;  // parameters

inline constexpr std::int64_t kMaxLoraRank = 1024;
inline constexpr std::int64_t kMaxLoraAlpha = 1 << 16;

inline constexpr std::int64_t kMaxChunks = 64;  // of the model per stage

// Micro-steps x pieces of the model: the work of checking and simulating a step is in proportion.
inline constexpr std::int64_t kMaxPieceMicroSteps = std::int64_t{1} << 20;

// Of one operation, and of all buffers of all ranks together: what is read and written again, and
// slack of the placement, still fit 64 bits.
inline constexpr double kMaxFlopsPerOp = 0x1p61;
inline constexpr double kMaxTotalBytes = 0x1p61;

}  // namespace zplan
