// Checks that an operation touches what it declares and nothing else (law 3), for one rank:
//   - a tier of which it has no operand has no access while it runs;
//   - every byte outside its written views keeps its value (compared with a shadow copy);
//   - every element of a view it writes is written (filled with poison before);
//   - no element it reads was never written, or belongs to another buffer by now. The first write
//     to a buffer takes its address range over and poisons it; reuse of bytes is thus seen;
//   - scratch holds poison before each use, as far as uses without a gap have reached into it, and
//     has no access while an operation without it runs.
// What lies on NVMe is out of reach of kernels: of it only who wrote which bytes is kept.
// A violation is an Error(kCheckFailed) that names operation and buffer, except a touch of memory
// without access: the operating system ends the process there, with SIGSEGV and no message of ours;
// a debugger shows the operation. Costs several times the work itself and twice the memory: for
// tests on small models.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/backend.h"
#include "exec/memory/slab.h"

namespace zplan::exec {

class Guard {
 public:
  // From here to release() the slabs are accessible between open and close only. Without a close
  // in between, an open takes away what its operation does not use: successive operations mostly
  // use the same, and changing the protection of pages is slow.
  explicit Guard(RankMemory& memory);

  // Around one operation; `what` names it in errors.
  void open(std::span<const Operand> operands, const std::string& what);
  void check(std::span<const Operand> operands, const std::string& what);
  void close();
  void release();

 private:
  static constexpr BufferId kNobody = ~BufferId{0};
  static constexpr std::int64_t kWord = 2;  // bytes; no element is smaller
  struct Section {
    Bytes begin, end;
  };
  struct TierState {
    std::vector<std::byte> shadow;
    std::vector<BufferId> owner;  // of each kBufferAlignment bytes
    std::vector<bool> written;    // of each kWord bytes; NVMe only
    // Follow from `owner`, brought up to date when a workspace wins or loses bytes.
    bool is_sorted_out = false;
    std::vector<Section> compared;         // what no workspace owns
    std::vector<BufferId> own_workspaces;  // those that own all of their bytes
    std::vector<BufferId> hidden;          // workspaces without access at the moment
  };

  const Buffer& buffer(BufferId id) const { return memory_->rank_class().program.buffers[id]; }
  Bytes offset_of(BufferId id) const { return memory_->rank_class().placement.offset[id]; }
  TierState& state_of(Tier tier) { return tiers_[static_cast<std::size_t>(tier)]; }
  TierState& tier_of(BufferId id) { return state_of(buffer(id).tier); }
  void adopt_persistent_buffers();
  void mark_written(Tier tier, Bytes begin, Bytes end, bool written);
  std::optional<std::int64_t> first_unwritten(const Operand& operand) const;
  void find_workspaces();
  bool is_workspace(BufferId id) const { return id != kNobody && is_workspace_[id]; }
  void sort_out(Tier tier);
  bool has_operand(std::span<const Operand> operands, Tier tier) const;
  void close(Tier tier);
  void set_accessible(BufferId id, bool accessible);
  void show_workspaces(Tier tier, std::span<const Operand> operands);
  void show_all_workspaces(Tier tier);
  void hide_workspaces(Tier tier, std::span<const Operand> operands);
  void take_over(BufferId id, const std::string& what);
  void check_readable(const Operand& operand, const std::string& what);
  void check_untouched(Tier tier, const std::string& what);
  std::string owner_name(BufferId id) const;

  RankMemory* memory_;
  std::array<TierState, kTierCount> tiers_;
  std::vector<bool> is_workspace_;  // by buffer: nothing but scratch; has no shadow
};

}  // namespace zplan::exec
