// The passes of one rank as nested loops, whose size depends on the period of the schedule and not
// on the number of micro-batches. Exact: unfold(fold(order)) == order.passes.
//
// Folding goes from short periods to long ones: a run of equal groups of passes whose micro-batches
// advance by equal steps becomes a loop, and loops are then folded like passes. Time is linear in
// the number of passes for schedules with short periods.
#pragma once

#include <variant>
#include <vector>

#include "planner/program/schedule/schedule.h"

namespace zplan {

struct LoopEntry;

// `count` iterations; the loop's micro-batch is first + step * iteration, on top of that of the
// loop around it. Entries count their micro-batches from it; the least of them is 0.
struct PassLoop {
  std::int32_t count = 1;
  std::int32_t first = 0;
  std::int32_t step = 1;
  std::vector<LoopEntry> body;
};

struct LoopEntry : std::variant<Pass, PassLoop> {
  using std::variant<Pass, PassLoop>::variant;
};

// Loops within each other at most: more would not leave room in a Program (kMaxDepth) for the
// offset of a pass, for layers and for tiles.
inline constexpr int kMaxPassLoops = 2;

// A forward stands in one body with the backward that is worked off beside it. Passes outside any
// run stand in loops of one iteration, as far as a group of them has no kind of a chunk twice.
std::vector<PassLoop> fold(const PassOrder& order);

std::vector<Pass> unfold(const std::vector<PassLoop>& loops);

// Passes that stand in the loops.
std::size_t body_size(const std::vector<PassLoop>& loops);

}  // namespace zplan
