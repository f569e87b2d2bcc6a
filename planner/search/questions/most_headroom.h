// The plan that leaves most of the GPU memory free, of those that take at most some percent longer
// than the fastest one found: without a limit on time it would be the one with all on drives. Of
// plans that take the same memory the faster one.
//
// To the plans that a search has simulated come the leaves of its space, each with the prefetch and
// the tiles with which it fits, also those whose states could be closer to the GPU. Those that
// bounds on time and bytes let be better climb the rungs of search.h, by turns the one with the
// least bound on time and the one with the least memory. Left out: depths of prefetch, units and
// shards other than those with which a leaf fits first.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/search.h"

namespace zplan {

struct MostHeadroom {
  Simulated best;
  Seconds limit{};              // on the step
  Bytes least{0};               // no leaf that is fast enough takes less: best.gpu where proven
  std::int64_t candidates = 0;  // leaves that bounds did not exclude at first
  std::int64_t simulated = 0;   // of them
  bool proven() const { return least == best.gpu; }
};

// `known`: what the search has simulated, the fastest first, at least one. Of `options` the
// threads, how much may be simulated (as much again as by the search) and when to stop.
MostHeadroom most_headroom(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                           const Evaluator& evaluator, const std::vector<Simulated>& known,
                           double within, const SearchOptions& options);

}  // namespace zplan
