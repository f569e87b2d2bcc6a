// When a buffer holds its bytes, on the folded Program. Positions are node indices: nodes are
// stored in program order of their first instance, so a block covers a contiguous range of them.
//
// Rules. A persistent buffer lives from the first position to the last. Of any other buffer:
//   1. The scope is the innermost block around all its accesses.
//   2. The nearest loop (count > 1) at or above the scope may carry the buffer from one iteration
//      to the next: when an iteration reads a byte it has not written before, or when the buffer
//      has several slots and the loop's variable picks among them (a ring, filled ahead on another
//      lane). Then the scope is raised to the loop's parent, and the question asked again.
//   3. The lifetime is the hull of the accesses, each widened to the outermost loop below the
//      scope that contains it: inside that loop every iteration may need it.
//   4. All slots are occupied during the whole lifetime.
// The steps are the outermost loop: what it would carry must be persistent, else it is an error.
//
// [derived] Rule 2 walks one iteration over bytes and slots. An inner loop is walked for one period
// of its slot expressions: later iterations repeat the same slots, and bytes once written stay so.
// Blocks that run once do not delimit anything. Views whose bytes depend on the rank are walked
// for the first and the last of the ranks; the lifetime is one that serves both. Whether reuse is
// safe in time is not decided here: reuse edges see to it.
#pragma once

#include <array>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

// First and last position, both included. Empty when nothing uses the buffer.
struct Lifetime {
  NodeIndex first = 1;
  NodeIndex last = 0;

  bool used() const { return first <= last; }
  bool overlaps(const Lifetime& other) const {
    return used() && other.used() && first <= other.last && other.first <= last;
  }
  std::int64_t length() const { return used() ? std::int64_t{last} - first + 1 : 0; }
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

// One per buffer. Throws Error(kInternal) when a step reads bytes of a buffer that is not
// persistent before it writes them.
std::vector<Lifetime> lifetimes(const Program& program, const Mesh& mesh);
// By class.
using JobLifetimes = std::vector<std::vector<Lifetime>>;
JobLifetimes lifetimes(const Job& job);

// Most bytes alive at one position, and the first such position.
struct LivePeak {
  Bytes bytes{0};
  NodeIndex at = 0;
};
std::array<LivePeak, kTierCount> live_peaks(const Program& program,
                                            const std::vector<Lifetime>& lives);

}  // namespace zplan
