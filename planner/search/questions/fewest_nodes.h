// The fewest nodes of a kind whose best plan found is good enough: doubling, then the counts
// between the last that is not and the first that is, in eighths of it, the fewest first. Counts
// that the batch and the layers do not divide into are passed over, so a count in between may do as
// well. Doubling ends where twice as many are hardly faster.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "planner/search/search.h"

namespace zplan {

struct NodeCount {
  std::int64_t nodes = 0;
  std::optional<Candidate> best;  // recommended; nothing: no plan fits
  std::string why;                // there is none
  bool good = false;
  bool too_slow = false;  // so that fewer nodes are, too
  Seconds time{};         // that its plan takes for what is asked; 0: not known
};
struct FewestNodes {
  std::optional<NodeCount> found;  // good enough
  NodeCount closest;               // otherwise the largest tried
  int tried = 0;
  bool interrupted = false;
};
using TryNodes = std::function<NodeCount(std::int64_t)>;

// `most`: no more nodes than these are tried. `stop`: Ctrl-C. `guess`: what was found for nodes
// like these, 0: nothing; where it is good and the count below it is not, no other count is tried.
FewestNodes fewest_nodes(std::int64_t most, const TryNodes& try_nodes,
                         const std::function<bool()>& stop, std::int64_t guess = 0);

}  // namespace zplan
