// Plans that differ in nothing but where states are kept: the homes of the four states and whether
// checkpoints are cut over the tensor parallel ranks. One is closer than another when each of its
// states is as close to the GPU or closer.
//
// The search tries the closest first. Once a plan fits, those of its siblings that keep a state
// farther away and none closer are set aside: the same kernels, with more transfers. [assumed] that
// they are not faster: no bound proves it, since a host can update beside the GPU. Nor does it look
// beyond one that its bounds show to be too slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/search/leaf.h"

namespace zplan {

class Siblings {
 public:
  // `leaves` as enumerated: siblings side by side.
  explicit Siblings(const std::vector<Leaf>& leaves);

  // The leaves without closer siblings, in order.
  std::vector<std::size_t> closest() const;
  // To be called when a leaf does not fit: gives the next ones farther away that have no closer one
  // left. Those that take as much of a GPU that is too small do not fit either and are passed over.
  std::vector<std::size_t> after_misfit(std::vector<Leaf>& leaves, std::size_t index);
  // To be called when a leaf fits: marks all that are farther away.
  void set_others_aside(std::vector<Leaf>& leaves, std::size_t index) const;
  // Where the next group begins.
  std::size_t end_of_group(std::size_t index) const {
    return index - place_[index] + order_of(index).next.size();
  }
  // The next ones farther away.
  std::vector<std::size_t> next(std::size_t index) const;

 private:
  // What a group of siblings looks like, shared by all groups alike: for each its direct successors
  // and how many direct predecessors it has.
  struct Order {
    std::vector<std::vector<std::uint32_t>> next;
    std::vector<std::uint32_t> before;
  };
  static Order make_order(const std::vector<std::uint32_t>& codes);
  const Order& order_of(std::size_t index) const { return orders_[order_[index]]; }

  std::vector<Order> orders_;
  std::vector<std::uint32_t> order_;    // of each leaf's group
  std::vector<std::uint32_t> place_;    // of each leaf within its group
  std::vector<std::uint32_t> pending_;  // direct predecessors not yet known to be too large
};

}  // namespace zplan
