// Where blocks lie in the tree of a Program, and what a block makes of the loop variables.
#pragma once

#include <cstdint>

#include "planner/program/program.h"

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

// Values of the variables within an iteration of the block; `outer`: around it.
inline Env bind(const Block& block, Env outer, std::int64_t iteration) {
  if (block.var == Var::kNone) return outer;
  std::int64_t& value = block.var == Var::kMicro ? outer.micro : outer.layer;
  value = (block.relative ? value : 0) + block.first + block.step * iteration;
  return outer;
}

}  // namespace zplan
