// Which lanes run a node together: worked out once for every node of every class, by the index of
// who meets whom (planner/program/job/meetings.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan::sim {

// One lane of one class: class * kLaneCount + lane.
using Slot = std::uint32_t;

class MeetingTable {
 public:
  explicit MeetingTable(const Job& job);

  // The number of the meeting that a node is for; 0: it needs no other class. Nodes of two classes
  // stand for the same operation iff their numbers are equal.
  std::uint32_t of(std::size_t stage, NodeIndex node) const { return of_node_[stage][node]; }
  // The lanes that take part; a sender comes first.
  std::span<const Slot> members(std::uint32_t meeting) const { return members_[meeting]; }

 private:
  std::vector<std::vector<std::uint32_t>> of_node_;
  std::vector<std::vector<Slot>> members_;
};

}  // namespace zplan::sim
