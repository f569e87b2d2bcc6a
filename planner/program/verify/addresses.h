// The bytes that the views of a Program touch, cut into pieces such that every view covers whole
// pieces. Bytes that the same views cover at the same slots are one piece: nothing tells them
// apart. So the pieces of all ranks of a class are one set, although their views lie at
// index * stride: a rank differs from another only in which pieces it has.
// Without placement every buffer has addresses of its own.
//
// [derived] Of each coordinate that strides depend on, the first two and the last two values are
// looked at: how the part of a rank and the whole lie to each other differs at the ends only. Views
// at fixed places in the middle of what the ranks share out may meet parts that are not looked at.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "planner/core/philox.h"
#include "planner/program/job/job.h"

namespace zplan {

class AddressPieces {
 public:
  // `placement`: null when there is none.
  AddressPieces(const Job& job, const Program& program, const Placement* placement);

  std::size_t count() const { return count_; }
  // Index of the view in Program::views.
  std::span<const std::uint32_t> of(std::size_t view, std::int64_t slot) const {
    return pieces_[first_item_[view] + static_cast<std::size_t>(slot)];
  }
  std::span<const std::uint32_t> of_buffer(BufferId id) const { return pieces_[buffers_ + id]; }

 private:
  using Item = std::uint32_t;       // a view at one of its slots, or a whole buffer
  using Signature = PhiloxCounter;  // of the items that cover a byte
  struct Border {
    std::int64_t at;
    Item item;
    bool begins;
  };
  // What covers the byte that a sweep over the addresses has come to.
  struct Cover {
    std::vector<Item> items;
    std::vector<std::uint32_t> place;  // of each item in `items`
    std::size_t views = 0;
    Signature signature{};
  };

  void place_buffers(const Placement* placement);
  void sweep(const MeshPoint& at);
  void add_borders(std::int64_t begin, Bytes size, Item item);
  void pass(const Border& border, Cover& cover) const;
  void note(const Cover& cover);

  const Program* program_;
  std::vector<std::int64_t> base_;  // address of each buffer, tiers one after the other
  std::vector<std::size_t> first_item_;
  std::size_t buffers_ = 0;  // first item that is a buffer
  std::vector<Border> borders_;
  std::set<Signature> seen_;
  std::vector<std::vector<std::uint32_t>> pieces_;  // of each item
  std::uint32_t count_ = 0;
};

}  // namespace zplan
