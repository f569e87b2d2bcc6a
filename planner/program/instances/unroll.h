// The unrolled twin of a Job: every loop becomes as many blocks as it has iterations, each run once
// with the same loop values, and every edge names one exact instance. Same operations in the same
// order on the same lanes with the same slots, so it must give the same Timeline; tests compare the
// two to show that folding changes nothing. Buffers, views and placement stay as they are.
#pragma once

#include <cstdint>

#include "planner/program/job/job.h"

namespace zplan {

inline constexpr std::int64_t kMaxUnrolledNodes = std::int64_t{1} << 24;  // per class

// Throws Error(kBadInput) when a class would have more nodes than kMaxUnrolledNodes.
Job unroll(const Job& job);

}  // namespace zplan
