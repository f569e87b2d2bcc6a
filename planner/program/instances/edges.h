// Derives the edges that program order demands: of two nodes that touch the same bytes, at least
// one writing, the later instance waits for the earlier. Exact where both nodes sit in the same
// block, or in blocks below it that run once per iteration, or in sibling loops that run over the
// same layers or tiles, in the same order or mirrored; elsewhere it waits for the last instance of
// the earlier loop, which is later than needed but never wrong. What the other edges and the order
// of the lanes imply is left out (thin_edges.h), but where it may stay: to find it takes as long as
// to find the edges.
#pragma once

#include <vector>

#include "planner/program/job/program.h"

namespace zplan {

enum class ImpliedEdges { kLeftOut, kMayStay };

// Sets the data edges of all nodes from the views of each buffer. Replaces existing edges.
void derive_data_edges(Program& program, ImpliedEdges implied = ImpliedEdges::kLeftOut);

// Adds reuse edges between the users of different buffers that share addresses: `pairs` lists them.
struct SharedBytes {
  BufferId first, second;
};
void add_reuse_edges(Program& program, const std::vector<SharedBytes>& pairs);

}  // namespace zplan
