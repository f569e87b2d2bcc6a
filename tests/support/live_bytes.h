// The bytes that one step holds, counted instance by instance and byte by byte, without folding,
// lifetimes or offsets: a byte that is not persistent is held from the write of a value to the last
// read of it, a persistent buffer always. Nothing can hold less; what a placement counts beyond it
// is the price of lifetimes that are one range of nodes per buffer.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planner/program/instances/cursor.h"
#include "planner/program/job/job.h"

namespace zplan::testing_support {

struct LiveBytes {
  std::int64_t peak = 0;
  std::array<std::int64_t, kCategoryCount> by_category{};  // at the first instance of the peak
  std::int64_t unwritten_reads = 0;  // bytes read that the step has not written; must be none
  friend bool operator==(const LiveBytes&, const LiveBytes&) = default;
};

class LiveByteCounter {
 public:
  // As the rank with this shard and tp index holds them.
  LiveByteCounter(const Program& p, const MeshPoint& at)
      : p_(p), at_(at), borders_(p.buffers.size()) {
    for (const View& v : p.views)
      for (const Bytes border : {begin(v), begin(v) + v.bytes()})
        borders_[v.buffer].push_back(border.value);
    for (auto& list : borders_) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  std::array<LiveBytes, kTierCount> count() {
    const ProgramIndex index(p_);
    positions_ = index.all_nodes();
    for (auto& tier : change_)
      for (auto& category : tier) category.assign(static_cast<std::size_t>(positions_) + 1, 0);
    for (const Buffer& b : p_.buffers)
      if (b.persistent) hold(b, b.size().value, {0, positions_ - 1});
    for (Cursor at(index, std::nullopt); at->step() == 0; at.advance()) issue(*at);
    for (const auto& [piece, life] : lives_) end(piece, life);
    return {peak_of(Tier::kGpu), peak_of(Tier::kCpu), peak_of(Tier::kNvme)};
  }

 private:
  struct Piece {
    BufferId buffer;
    std::int64_t slot;
    std::size_t border;  // the bytes from this border of a view to the next
    friend auto operator<=>(const Piece&, const Piece&) = default;
  };
  struct Life {
    std::int64_t first, last;
  };

  Bytes begin(const View& v) const { return v.begin(at_); }

  void issue(const Instance& at) {
    for (const View& v : p_.operands(p_.nodes[at.node]))
      if (reads(v.access)) visit(v, at, &LiveByteCounter::read);
    for (const View& v : p_.operands(p_.nodes[at.node]))
      if (writes(v.access)) visit(v, at, &LiveByteCounter::write);
  }

  void visit(const View& v, const Instance& at, void (LiveByteCounter::*use)(Piece, std::int64_t)) {
    if (p_.buffers[v.buffer].persistent) return;
    const auto& borders = borders_[v.buffer];
    const std::int64_t slot = v.slot.at(at.env, p_.buffers[v.buffer].slots);
    for (std::size_t i = 0; i + 1 < borders.size(); ++i)
      if (borders[i] >= begin(v).value && borders[i] < (begin(v) + v.bytes()).value)
        (this->*use)({v.buffer, slot, i}, at.program_sequence);
  }

  void read(Piece piece, std::int64_t now) {
    const auto life = lives_.find(piece);
    if (life == lives_.end()) {
      unwritten_[tier_of(piece)] += bytes_of(piece);
    } else {
      life->second.last = now;
    }
  }

  // A value read and replaced by one instance is one life.
  void write(Piece piece, std::int64_t now) {
    const auto [life, is_new] = lives_.try_emplace(piece, Life{now, now});
    if (is_new || life->second.last == now) return;
    end(piece, life->second);
    life->second = {now, now};
  }

  std::size_t tier_of(const Piece& piece) const {
    return static_cast<std::size_t>(p_.buffers[piece.buffer].tier);
  }
  std::int64_t bytes_of(const Piece& piece) const {
    const auto& borders = borders_[piece.buffer];
    return borders[piece.border + 1] - borders[piece.border];
  }
  void end(const Piece& piece, const Life& life) {
    hold(p_.buffers[piece.buffer], bytes_of(piece), life);
  }
  void hold(const Buffer& b, std::int64_t bytes, const Life& life) {
    auto& change = change_[static_cast<std::size_t>(b.tier)][static_cast<std::size_t>(b.category)];
    change[static_cast<std::size_t>(life.first)] += bytes;
    change[static_cast<std::size_t>(life.last) + 1] -= bytes;
  }

  LiveBytes peak_of(Tier tier) const {
    LiveBytes result;
    result.unwritten_reads = unwritten_[static_cast<std::size_t>(tier)];
    std::array<std::int64_t, kCategoryCount> now{};
    for (std::int64_t at = 0; at < positions_; ++at) {
      std::int64_t sum = 0;
      for (std::size_t c = 0; c < kCategoryCount; ++c)
        sum += now[c] += change_[static_cast<std::size_t>(tier)][c][static_cast<std::size_t>(at)];
      if (sum > result.peak) result.peak = sum, result.by_category = now;
    }
    return result;
  }

  const Program& p_;
  const MeshPoint at_;
  std::int64_t positions_ = 0;
  std::vector<std::vector<std::int64_t>> borders_;  // of views within a slot, by buffer
  std::map<Piece, Life> lives_;
  std::array<std::int64_t, kTierCount> unwritten_{};
  std::array<std::array<std::vector<std::int64_t>, kCategoryCount>, kTierCount> change_;
};

// Of each rank of a class that its views tell apart: at every place along the axes they depend on.
inline std::vector<std::array<LiveBytes, kTierCount>> live_bytes(const Job& job, std::size_t c) {
  const Program& p = job.classes[c].program;
  std::vector<MeshPoint> points{{}};
  for (std::size_t axis = 0; axis < job.mesh.axes.size(); ++axis) {
    const auto depends = [axis](const View& v) { return v.strides[axis] != 0; };
    if (!std::any_of(p.views.begin(), p.views.end(), depends)) continue;
    const std::size_t before = points.size();
    for (std::int32_t place = 1; place < job.mesh.axes[axis].size; ++place)
      for (std::size_t i = 0; i < before; ++i) points.emplace_back(points[i])[axis] = place;
  }
  std::vector<std::array<LiveBytes, kTierCount>> result;
  for (const MeshPoint& at : points) result.push_back(LiveByteCounter(p, at).count());
  return result;
}

}  // namespace zplan::testing_support
