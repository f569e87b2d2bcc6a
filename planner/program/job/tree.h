// Where blocks lie in the tree of a Program, and what a block makes of the loop variables.
#pragma once

#include <cstdint>

#include "planner/program/job/program.h"

namespace zplan {

// The block itself or the one around it at this depth.
inline BlockIndex ancestor(const Program& p, BlockIndex block, std::int32_t depth) {
  while (p.blocks[block].depth > depth) block = p.blocks[block].parent;
  return block;
}

// The innermost block that holds both.
inline BlockIndex common_ancestor(const Program& p, BlockIndex a, BlockIndex b) {
  while (a != b) {
    if (p.blocks[a].depth >= p.blocks[b].depth) {
      a = p.blocks[a].parent;
    } else {
      b = p.blocks[b].parent;
    }
  }
  return a;
}

// How often a step runs through the block.
inline std::int64_t instances(const Program& p, BlockIndex block) {
  std::int64_t product = 1;
  for (; block != 0; block = p.blocks[block].parent) product *= p.blocks[block].count;
  return product;
}

// What belongs to a loop variable: its value, null for kNone, and its factor in a slot.
inline std::int64_t* value_of(Env& env, Var var) {
  switch (var) {
    case Var::kNone:
      return nullptr;
    case Var::kMicro:
      return &env.micro;
    case Var::kLayer:
      return &env.layer;
    case Var::kTile:
      return &env.tile;
  }
  return nullptr;
}
inline std::int64_t factor_of(const SlotExpr& slot, Var var) {
  switch (var) {
    case Var::kNone:
      return 0;
    case Var::kMicro:
      return slot.per_micro;
    case Var::kLayer:
      return slot.per_layer;
    case Var::kTile:
      return slot.per_tile;
  }
  return 0;
}

// Returns what the value around a block adds to its own.
inline std::int64_t of_outer(const Block& block, std::int64_t outer) {
  if (!block.relative) return 0;
  return block.mirrored ? -outer : outer;
}

// Values of the variables within an iteration of the block; `outer`: around it.
inline Env bind(const Block& block, Env outer, std::int64_t iteration) {
  if (std::int64_t* value = value_of(outer, block.var))
    *value = of_outer(block, *value) + block.first + block.step * iteration;
  return outer;
}

// How many slots a slot expression moves from one iteration of the block to the next.
inline std::int64_t slot_rate(const SlotExpr& slot, const Block& block) {
  return factor_of(slot, block.var) * block.step;
}

}  // namespace zplan
