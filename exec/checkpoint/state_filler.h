// Fills the states of ranks from the pieces of a checkpoint (loader.h says by which rules), tensor
// by tensor through their global elements. Internal to exec/checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "exec/checkpoint/piece_runs.h"
#include "exec/checkpoint/state_source.h"
#include "exec/memory/state_access.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

// Scales of 8-bit moments come as moments after the codes, in their order.
inline constexpr int kScalesAfterCodes = 2;

// Calls fill(data) with the bytes of a slot, wherever they are kept.
template <typename Fill>
void store_bytes(const RankMemory& memory, BufferId buffer, std::int64_t slot, Bytes bytes,
                 const Fill& fill) {
  if (std::byte* data = memory.slot_address(buffer, slot)) return fill(data);
  const Slab staging(bytes);
  fill(staging.data());
  memory.store(buffer, slot, bytes, staging.data());
}

class StateFiller {
 public:
  StateFiller(StateSource& source, const Job& job) : source_(source), job_(job) {}

  void fill(RankMemory& memory);
  // Tensors whose moments are zero for want of others.
  std::size_t without_moments() const { return without_.size(); }

 private:
  void fill_home(RankMemory& memory, const UnitHome& home);
  void fill_codes(RankMemory& memory, const UnitHome& home);
  void fill_piece(const UnitHome& home, State state, const StatePiece& piece, std::byte* data);
  // The codes of a piece and the scales that belong to them.
  void fill_blocks(const UnitHome& home, State state, const StatePiece& codes,
                   const StatePiece& scales, std::byte* code_data, std::byte* scale_data);
  // Calls use(source, from, to, length) for the runs of the piece that pieces of the checkpoint
  // have.
  template <typename Use>
  void for_sources(const UnitHome& home, State state, const StatePiece& piece, const Use& use);

  State source_state(const std::string& tensor, State state, DType dtype) const;
  bool has_moments(const UnitHome& home, const std::string& tensor) const;
  // The piece of the checkpoint that is this one, to the byte; null when there is none.
  const std::byte* same_piece(const UnitHome& home, State state, const StatePiece& piece);

  StateSource& source_;
  const Job& job_;
  std::set<std::string> without_;
};

}  // namespace zplan::exec
