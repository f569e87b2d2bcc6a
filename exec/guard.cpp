#include "exec/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/initial_state.h"
#include "exec/poison.h"
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

// A workspace is far larger than anything else, so it is protected by page instead of by shadow.
void Guard::hide_workspaces(std::span<const Operand> operands) {
  for (BufferId id = 0; id < is_workspace_.size(); ++id) {
    const auto uses = [id](const Operand& operand) { return operand.view->buffer == id; };
    if (!is_workspace_[id] || std::any_of(operands.begin(), operands.end(), uses)) continue;
    const Bytes begin = offset_of(id), end = begin + buffer(id).size();
    const auto owner = tier_of(id).owner.begin();
    const bool is_whole = std::all_of(owner + begin.value / kBufferAlignment.value,
                                      owner + end.value / kBufferAlignment.value,
                                      [id](BufferId other) { return other == id; });
    if (is_whole) memory_->slab(buffer(id).tier).hide(begin, end);
  }
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
  for (const Operand& operand : operands) {
    memory_->slab(buffer(operand.view->buffer).tier).set_accessible(true);
    if (writes(operand.view->access)) take_over(operand.view->buffer, what);
  }
  for (const Operand& operand : operands) {
    if (reads(operand.view->access)) check_readable(operand, what);
  }
  for (const Operand& operand : operands) {
    const Access access = operand.view->access;
    if (operand.data == nullptr) continue;
    if (access != Access::kWrite && access != Access::kScratch) continue;
    for (const Range& part : unread_parts(operand, operands))
      fill_poison(part.begin, Bytes{part.end - part.begin});
  }
  hide_workspaces(operands);
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
  for (const Operand& operand : operands) check_untouched(buffer(operand.view->buffer).tier, what);
}

void Guard::check_untouched(Tier tier, const std::string& what) const {
  const TierState& state = tiers_[static_cast<std::size_t>(tier)];
  const std::byte* slab = memory_->slab(tier).data();
  if (slab == nullptr) return;
  const auto has_shadow = [&](std::size_t block) {
    return state.owner[block] == kNobody || !is_workspace_[state.owner[block]];
  };
  constexpr auto kBlock = static_cast<std::size_t>(kBufferAlignment.value);
  for (std::size_t first = 0, last = 0; first < state.owner.size(); first = last + 1) {
    last = first;
    while (last < state.owner.size() && has_shadow(last)) ++last;
    const std::byte* begin = slab + first * kBlock;
    const std::byte* shadow = state.shadow.data() + first * kBlock;
    const std::size_t length = (last - first) * kBlock;
    if (length == 0 || std::memcmp(begin, shadow, length) == 0) continue;
    const std::byte* changed = std::mismatch(begin, begin + length, shadow).first;
    const auto at = static_cast<std::size_t>(changed - slab);
    violation(what,
              fmt::format("changes byte {} of the {} slab outside its views, which belongs to {}",
                          at, name(tier), owner_name(state.owner[at / kBlock])));
  }
}

void Guard::close() {
  for (Tier tier : kTiers) memory_->slab(tier).set_accessible(false);
}

void Guard::release() {
  for (Tier tier : kTiers) memory_->slab(tier).set_accessible(true);
}

}  // namespace zplan::exec
