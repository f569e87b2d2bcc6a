// How long the compute lane takes at least for one iteration of a loop whose kernels wait for the
// collectives between them. [derived] Lanes work in order, so what a kernel waits for adds to the
// time of the kernels before it as far as these do not fill it: the longest path over the nodes of
// the body, each as long as it takes alone, along the order of the two lanes and the edges between
// them. Iterations follow each other on the lane, so the paths of each add up.
//
// Counted are edges between nodes of one block, within an iteration or to the one before; a block
// within counts as one node that takes what its iterations do one after the other. All else would
// only make paths longer.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/core/units.h"
#include "planner/program/job/program.h"

namespace zplan {

class Chain {
 public:
  // `times`: of each node alone; none: the node does not count. Only nodes of the compute lane and
  // of one lane of collectives may have one. Both must outlive the chain.
  Chain(const Program& program, std::span<const std::optional<Seconds>> times)
      : program_(program), times_(times) {}

  // From the beginning of the first kernel of an iteration to the end of its last one.
  Seconds body(BlockIndex block) const;
  // By how much n iterations take at least longer than n bodies, for each of the n - 1 that follow
  // another: kernels wait for collectives of the iteration before, too.
  Seconds between(BlockIndex block) const;
  // The kernels alone, of one iteration.
  Seconds kernels(BlockIndex block) const;

 private:
  struct Walk;
  using Items = std::span<const Block::Item>;

  bool counts(const Block::Item& item) const;
  bool waits_for_iteration_before(const Node& node) const;
  std::optional<Seconds> ready(const Walk& walk, const Node& node) const;
  void pass(Walk& walk, Items items) const;

  const Program& program_;
  const std::span<const std::optional<Seconds>> times_;
};

}  // namespace zplan
