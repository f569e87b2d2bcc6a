// What a Job holds at its fullest moment, per rank class and tier, in bytes of one rank. Exact:
// the slab is the number a backend allocates. Works on a Job without placement, too; the slabs are
// then zero and the live peak, which no placement can undercut, is all there is.
// Padding counts for the category of its buffer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/place/lifetime.h"
#include "planner/program/job/job.h"

namespace zplan {

struct LiveBuffer {
  std::string name;
  Category category = Category::kActivations;
  Bytes size;  // all slots
};

struct TierMemory {
  Bytes slab{0};       // zero until placed
  Bytes live_peak{0};  // most bytes alive at one position of the folded Program
  std::array<Bytes, kCategoryCount> by_category{};  // alive at the peak
  std::vector<LiveBuffer> largest;                  // alive at the peak, largest first
  NodeIndex peak_node = 0;
  std::string peak_op;  // role of that node; empty when the tier is unused

  // Memory lost to fragmentation: 1 is none.
  double slab_over_live_peak() const {
    if (live_peak.value == 0) return 1.0;
    return static_cast<double>(slab.value) / static_cast<double>(live_peak.value);
  }
};

struct ClassMemory {
  std::int32_t stage = 0;
  std::array<TierMemory, kTierCount> tiers;
};

struct MemoryReport {
  std::vector<ClassMemory> classes;
};

MemoryReport measure(const Job& job);
MemoryReport measure(const Job& job, const JobLifetimes& lives);

}  // namespace zplan
