#include "exec/memory/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/memory/initial_state.h"
#include "exec/memory/poison.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr std::array kTiers{Tier::kGpu, Tier::kCpu, Tier::kNvme};

[[noreturn]] void violation(const std::string& what, const std::string& how) {
  throw Error(ExitCode::kCheckFailed, fmt::format("{} {}", what, how));
}

struct Range {
  std::byte* begin;
  std::byte* end;
};

Range range_of(const Operand& operand) {
  return {operand.data, operand.data + operand.view->bytes().value};
}

// The parts of an operand that no operand of the operation reads: all of it unless it works in
// place.
std::vector<Range> unread_parts(const Operand& written, std::span<const Operand> operands) {
  std::vector<Range> parts{range_of(written)};
  for (const Operand& operand : operands) {
    if (!reads(operand.view->access)) continue;
    const Range hole = range_of(operand);
    std::vector<Range> rest;
    for (const Range& part : parts) {
      if (part.begin < std::min(part.end, hole.begin))
        rest.push_back({part.begin, std::min(part.end, hole.begin)});
      if (std::max(part.begin, hole.end) < part.end)
        rest.push_back({std::max(part.begin, hole.end), part.end});
    }
    parts = std::move(rest);
  }
  return parts;
}

bool uses(std::span<const Operand> operands, BufferId id) {
  return std::any_of(operands.begin(), operands.end(),
                     [id](const Operand& operand) { return operand.view->buffer == id; });
}

}  // namespace

Guard::Guard(RankMemory& memory) : memory_(&memory) {
  const RankClass& rank_class = memory.rank_class();
  for (Tier tier : kTiers) {
    const auto index = static_cast<std::size_t>(tier);
    const Slab& slab = memory.slab(tier);
    const Bytes size =
        tier == Tier::kNvme ? rank_class.placement.slab[index] : memory.slab(tier).size();
    TierState& state = tiers_[index];
    state.shadow.assign(slab.data(), slab.data() + slab.size().value);
    state.owner.assign(static_cast<std::size_t>(ceil_div(size.value, kBufferAlignment.value)),
                       kNobody);
    if (tier == Tier::kNvme)
      state.written.assign(static_cast<std::size_t>(size.value / kWord), false);
  }
  adopt_persistent_buffers();
  find_workspaces();
  close();
}

void Guard::adopt_persistent_buffers() {
  const RankClass& rank_class = memory_->rank_class();
  for (BufferId id = 0; id < rank_class.program.buffers.size(); ++id) {
    if (!buffer(id).persistent) continue;
    const std::int64_t first = offset_of(id).value / kBufferAlignment.value;
    std::fill_n(tier_of(id).owner.begin() + first, buffer(id).size().value / kBufferAlignment.value,
                id);
  }
  for (BufferId id : initialised_buffers(rank_class))
    mark_written(buffer(id).tier, offset_of(id), offset_of(id) + buffer(id).size(), true);
}

// Memory says by its poison what was written.
void Guard::mark_written(Tier tier, Bytes begin, Bytes end, bool written) {
  if (tier != Tier::kNvme) return;
  std::vector<bool>& words = tiers_[static_cast<std::size_t>(tier)].written;
  std::fill(words.begin() + begin.value / kWord, words.begin() + end.value / kWord, written);
}

void Guard::find_workspaces() {
  const Program& program = memory_->rank_class().program;
  is_workspace_.assign(program.buffers.size(), false);
  for (const View& view : program.views)
    if (view.access == Access::kScratch) is_workspace_[view.buffer] = true;
  for (const View& view : program.views)
    if (view.access != Access::kScratch) is_workspace_[view.buffer] = false;
}

void Guard::sort_out(Tier tier) {
  TierState& state = state_of(tier);
  if (state.is_sorted_out) return;
  state.is_sorted_out = true;
  state.compared.clear();
  for (std::size_t block = 0; block < state.owner.size(); ++block) {
    if (is_workspace(state.owner[block])) continue;
    const Bytes begin = kBufferAlignment * static_cast<std::int64_t>(block);
    if (state.compared.empty() || state.compared.back().end != begin)
      state.compared.push_back({begin, begin});
    state.compared.back().end = begin + kBufferAlignment;
  }
  state.own_workspaces.clear();
  for (BufferId id = 0; id < is_workspace_.size(); ++id) {
    if (!is_workspace_[id] || buffer(id).tier != tier) continue;
    const auto first = state.owner.begin() + offset_of(id).value / kBufferAlignment.value;
    const auto last = first + buffer(id).size().value / kBufferAlignment.value;
    if (std::all_of(first, last, [id](BufferId other) { return other == id; }))
      state.own_workspaces.push_back(id);
  }
}

bool Guard::has_operand(std::span<const Operand> operands, Tier tier) const {
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return buffer(operand.view->buffer).tier == tier;
  });
}

void Guard::set_accessible(BufferId id, bool accessible) {
  const Bytes begin = offset_of(id);
  memory_->slab(buffer(id).tier).set_accessible(begin, begin + buffer(id).size(), accessible);
}

// A workspace is far larger than anything else, so it is protected by page instead of by shadow.
void Guard::hide_workspaces(Tier tier, std::span<const Operand> operands) {
  sort_out(tier);
  std::vector<BufferId>& hidden = state_of(tier).hidden;
  for (BufferId id : state_of(tier).own_workspaces) {
    if (uses(operands, id) || std::find(hidden.begin(), hidden.end(), id) != hidden.end()) continue;
    set_accessible(id, false);
    hidden.push_back(id);
  }
}

void Guard::show_workspaces(Tier tier, std::span<const Operand> operands) {
  std::erase_if(state_of(tier).hidden, [&](BufferId id) {
    if (!uses(operands, id)) return false;
    set_accessible(id, true);
    return true;
  });
}

void Guard::show_all_workspaces(Tier tier) {
  for (BufferId id : state_of(tier).hidden) set_accessible(id, true);
  state_of(tier).hidden.clear();
}

std::string Guard::owner_name(BufferId id) const {
  return id == kNobody ? "no buffer" : "buffer " + buffer(id).name;
}

// Bytes that were another buffer's become this one's, without a value.
void Guard::take_over(BufferId id, const std::string& what) {
  TierState& tier = tier_of(id);
  std::byte* slab = memory_->slab(buffer(id).tier).data();
  const std::int64_t begin = offset_of(id).value;
  const std::int64_t end = begin + buffer(id).size().value;
  for (std::int64_t at = begin; at < end; at += kBufferAlignment.value) {
    BufferId& owner = tier.owner[static_cast<std::size_t>(at / kBufferAlignment.value)];
    if (owner == id) continue;
    if (owner != kNobody && buffer(owner).persistent) {
      violation(what, fmt::format("writes to buffer {}, which shares bytes with persistent {}",
                                  buffer(id).name, owner_name(owner)));
    }
    if (is_workspace(owner) || is_workspace(id)) {
      tier.is_sorted_out = false;
      show_all_workspaces(buffer(id).tier);
    }
    owner = id;
    mark_written(buffer(id).tier, Bytes{at}, Bytes{at} + kBufferAlignment, false);
    if (slab == nullptr) continue;
    fill_poison(slab + at, kBufferAlignment);
    fill_poison(tier.shadow.data() + at, kBufferAlignment);
  }
}

void Guard::check_readable(const Operand& operand, const std::string& what) {
  const BufferId id = operand.view->buffer;
  const TierState& tier = tier_of(id);
  const std::int64_t begin = operand.offset.value;
  const std::int64_t end = begin + operand.view->bytes().value;
  for (std::int64_t at = begin / kBufferAlignment.value; at * kBufferAlignment.value < end; ++at) {
    const BufferId owner = tier.owner[static_cast<std::size_t>(at)];
    if (owner == id) continue;
    violation(what, fmt::format("reads buffer {} where its bytes belong to {}", buffer(id).name,
                                owner_name(owner)));
  }
  const std::optional<std::int64_t> unwritten = first_unwritten(operand);
  if (!unwritten) return;
  violation(what, fmt::format("reads byte {} of its view of buffer {}, which was never written",
                              *unwritten, buffer(id).name));
}

// Byte of the view.
std::optional<std::int64_t> Guard::first_unwritten(const Operand& operand) const {
  if (operand.data != nullptr) {
    const Range range = range_of(operand);
    const std::byte* found = find_poison(range.begin, range.end, size_of(operand.view->dtype));
    if (found == nullptr) return std::nullopt;
    return found - operand.data;
  }
  const std::vector<bool>& words = tiers_[static_cast<std::size_t>(Tier::kNvme)].written;
  const auto begin = words.begin() + operand.offset.value / kWord;
  const auto end = begin + operand.view->bytes().value / kWord;
  const auto found = std::find(begin, end, false);
  if (found == end) return std::nullopt;
  return (found - begin) * kWord;
}

void Guard::open(std::span<const Operand> operands, const std::string& what) {
  for (Tier tier : kTiers) {
    if (has_operand(operands, tier)) {
      memory_->slab(tier).set_accessible(true);
      show_workspaces(tier, operands);
    } else {
      close(tier);
    }
  }
  for (const Operand& operand : operands)
    if (writes(operand.view->access)) take_over(operand.view->buffer, what);
  for (const Operand& operand : operands) {
    if (reads(operand.view->access)) check_readable(operand, what);
  }
  for (const Operand& operand : operands) {
    const Access access = operand.view->access;
    if (operand.data == nullptr) continue;
    if (access == Access::kScratch) refill_poison(operand.data, operand.view->bytes());
    if (access != Access::kWrite) continue;
    for (const Range& part : unread_parts(operand, operands))
      fill_poison(part.begin, Bytes{part.end - part.begin});
  }
  for (Tier tier : kTiers)
    if (has_operand(operands, tier)) hide_workspaces(tier, operands);
}

void Guard::check(std::span<const Operand> operands, const std::string& what) {
  for (const Operand& operand : operands) {
    const View& view = *operand.view;
    if (!writes(view.access) || is_workspace_[view.buffer]) continue;
    if (operand.data == nullptr) {  // the last block of the file is written as a whole
      const Bytes end = operand.offset + view.bytes();
      mark_written(Tier::kNvme, operand.offset, end, true);
      mark_written(Tier::kNvme, end, round_up(end, kIoAlignment), false);
      continue;
    }
    if (view.access == Access::kWrite) {
      for (const Range& part : unread_parts(operand, operands)) {
        const std::byte* missed = find_poison(part.begin, part.end, size_of(view.dtype));
        if (missed == nullptr) continue;
        violation(what, fmt::format("leaves byte {} of its view of buffer {} unwritten",
                                    missed - operand.data, buffer(view.buffer).name));
      }
    }
    std::byte* shadow = tier_of(view.buffer).shadow.data() + operand.offset.value;
    std::memcpy(shadow, operand.data, static_cast<std::size_t>(view.bytes().value));
  }
  for (Tier tier : kTiers)
    if (has_operand(operands, tier)) check_untouched(tier, what);
}

void Guard::check_untouched(Tier tier, const std::string& what) {
  const std::byte* slab = memory_->slab(tier).data();
  if (slab == nullptr) return;
  sort_out(tier);
  const TierState& state = state_of(tier);
  for (const Section& section : state.compared) {
    const std::byte* begin = slab + section.begin.value;
    const std::byte* shadow = state.shadow.data() + section.begin.value;
    const auto length = static_cast<std::size_t>((section.end - section.begin).value);
    if (std::memcmp(begin, shadow, length) == 0) continue;
    const std::byte* changed = std::mismatch(begin, begin + length, shadow).first;
    const std::int64_t at = changed - slab;
    const BufferId owner = state.owner[static_cast<std::size_t>(at / kBufferAlignment.value)];
    violation(what,
              fmt::format("changes byte {} of the {} slab outside its views, which belongs to {}",
                          at, name(tier), owner_name(owner)));
  }
}

void Guard::close(Tier tier) {
  memory_->slab(tier).set_accessible(false);
  state_of(tier).hidden.clear();
}

void Guard::close() {
  for (Tier tier : kTiers) close(tier);
}

void Guard::release() {
  for (Tier tier : kTiers) {
    show_all_workspaces(tier);
    memory_->slab(tier).set_accessible(true);
  }
}

}  // namespace zplan::exec
