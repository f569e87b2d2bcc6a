// Which home each kept tensor of a chain gets, so that a step takes least time in the memory that
// there is.
//
// A tensor's option takes bytes of memories and seconds of resources, the latter in each of the
// phases of a step. What is replayed or brought back is there for the tensors after it in every
// option, so options add up [derived], and couple through memories and resources alone:
//
//   seconds = sum over phases of max over resources (base + sum of what the options take)
//   subject to: sum of what the options take of each memory <= its room
//
// With one resource the sum is no maximum and this is the multiple-choice knapsack that
// [Chen16] and [Jain20] solve for recomputation alone; links beside compute make the maximum.
//
// Solved by branch and bound over the tensors. The bound is the Lagrangian dual: of a phase any
// mean of its resources is below their maximum, and memories have prices, so the tensors come apart
// and each takes its cheapest option. Means and prices are found by ascent along subgradients
// [Held74]. The answer is the best there is, or within `tolerance` of it, as long as `most_nodes`
// lasts; `bound` says how much better one could be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace zplan {

struct HomeOption {
  std::vector<double> bytes;    // by memory
  std::vector<double> seconds;  // by phase, then resource
};

struct TensorChain {
  std::size_t phases = 1;
  std::size_t resources = 1;
  std::vector<double> room;  // bytes of each memory; negative: nothing fits
  std::vector<double> base;  // seconds of a step without the tensors, by phase, then resource
  std::vector<std::vector<HomeOption>> tensors;

  // Of sums of seconds, as of `base`.
  double time_of(const std::vector<double>& seconds) const;
};

struct Assignment {
  std::vector<std::size_t> option;  // of each tensor
  double seconds = 0;
  double bound = 0;           // no assignment takes less
  std::vector<double> price;  // seconds that a byte more of each memory is worth, about
  std::int64_t nodes = 0;     // of the search
};

struct AssignmentLimits {
  double tolerance = 0;  // relative
  std::int64_t most_nodes = 1'000'000;
};

// Nothing: no assignment fits, or none was found.
std::optional<Assignment> assign_homes(const TensorChain& chain,
                                       const AssignmentLimits& limits = {});

}  // namespace zplan
