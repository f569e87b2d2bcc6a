// What one rank writes into a checkpoint. Of copies of a state (over replicas, of a unit that two
// stages hold, of a tensor that is not cut) one rank has the first, and that one is saved. What a
// step carries over is saved by every rank, for it may differ.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/checkpoint/format.h"
#include "exec/memory/slab.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

// Where the bytes of a piece are in the rank's memory.
struct PieceSource {
  BufferId buffer = 0;
  std::int64_t slot = 0;
  SavedBytes at;  // without the checksum
};

// The index without step and checksums. Sources: first those of the pieces, then those of what is
// carried; without gaps but for the alignment.
struct RankLayout {
  RankIndex index;
  std::vector<PieceSource> sources;
};
RankLayout saved_layout(const Job& job, const RankMemory& memory);
// The same of parameters alone: their masters, where they have some.
RankLayout weight_layout(const Job& job, const RankMemory& memory);
State weight_state(const UnitHome& home);

// The tensors of which a piece is the one that is saved, with the layer in their names: it has
// elements of them, and no piece before it has them whole.
std::vector<Tensor> saved_tensors(const Unit& unit, const StatePiece& piece);

// Of a job that scales its loss, as it is after a step; nothing for others.
std::optional<SavedLossScale> read_loss_scale(const RankMemory& memory);
void write_loss_scale(const RankMemory& memory, const SavedLossScale& saved);

}  // namespace zplan::exec
