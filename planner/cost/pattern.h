// What a transfer does to links: who moves bytes to whom. Transfers of one pattern load the same
// links, each in proportion to its bytes (mesh_wires.h).
#pragma once

#include <compare>
#include <cstdint>

#include "planner/program/job/mesh.h"

namespace zplan {

enum class PatternKind : std::uint8_t { kCopy, kHost, kRing, kPairs, kShift, kBetween, kCores };

// Only the group of the representative meets, on an ideal network.
inline constexpr int kAlone = 1;

//                       first             second                                group
//   copy                from this tier    to that tier                          its owners
//   host                                                                        its owners
//   ring, pairs, shift  kAlone or 0                                             those that meet
//   between             the other stage
//   cores               ranks of a node   2 x threads of each + is a product
//
// Where owners have axes, only the ranks with the representative's index along them take part.
struct Pattern {
  PatternKind kind{};
  int stage = 0;
  int first = 0, second = 0;
  Group group{};
  friend constexpr auto operator<=>(const Pattern&, const Pattern&) = default;
};

}  // namespace zplan
