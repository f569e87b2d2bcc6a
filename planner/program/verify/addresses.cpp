#include "planner/program/verify/addresses.h"

#include <algorithm>

namespace zplan {
namespace {

// The places along an axis that are looked at.
std::vector<std::int32_t> samples(const Axis& axis, bool matters) {
  if (!matters) return {0};
  std::vector<std::int32_t> result;
  for (std::int32_t i = 0; i < axis.size; ++i)
    if (i < 2 || i >= axis.size - 2) result.push_back(i);
  return result;
}

bool depends(const Program& program, std::size_t axis) {
  return std::any_of(program.views.begin(), program.views.end(),
                     [&](const View& v) { return v.strides[axis] != 0; });
}

}  // namespace

AddressPieces::AddressPieces(const Job& job, const Program& program, const Placement* placement)
    : program_(&program) {
  place_buffers(placement);
  for (const View& v : program.views) {
    first_item_.push_back(buffers_);
    buffers_ += static_cast<std::size_t>(program.buffers[v.buffer].slots);
  }
  pieces_.resize(buffers_ + program.buffers.size());
  const auto places_of = [&](std::size_t axis) {
    return samples(job.mesh.axes[axis], depends(program, axis));
  };
  for (const MeshPoint& at : job.mesh.points(places_of)) sweep(at);
}

void AddressPieces::place_buffers(const Placement* placement) {
  std::int64_t tier_base = 0;
  base_.resize(program_->buffers.size());
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    std::int64_t top = tier_base;
    for (BufferId id = 0; id < program_->buffers.size(); ++id) {
      const Buffer& buffer = program_->buffers[id];
      if (static_cast<std::size_t>(buffer.tier) != tier) continue;
      base_[id] = placement != nullptr ? tier_base + placement->offset[id].value : top;
      top = std::max(top, base_[id] + buffer.size().value);
    }
    tier_base = top;
  }
}

void AddressPieces::add_borders(std::int64_t begin, Bytes size, Item item) {
  borders_.push_back({begin, item, true});
  borders_.push_back({begin + size.value, item, false});
}

void AddressPieces::sweep(const MeshPoint& at) {
  borders_.clear();
  for (std::size_t i = 0; i < program_->views.size(); ++i) {
    const View& v = program_->views[i];
    const Buffer& buffer = program_->buffers[v.buffer];
    const Bytes within = v.begin(at);
    for (std::int32_t slot = 0; slot < buffer.slots; ++slot)
      add_borders(base_[v.buffer] + (buffer.slot_size * slot + within).value, v.bytes(),
                  static_cast<Item>(first_item_[i]) + static_cast<Item>(slot));
  }
  for (BufferId id = 0; id < program_->buffers.size(); ++id)
    add_borders(base_[id], program_->buffers[id].size(), static_cast<Item>(buffers_) + id);
  std::sort(borders_.begin(), borders_.end(),
            [](const Border& a, const Border& b) { return a.at < b.at; });
  Cover cover;
  cover.place.resize(pieces_.size());
  for (std::size_t i = 0; i < borders_.size(); ++i) {
    pass(borders_[i], cover);
    if (i + 1 == borders_.size() || borders_[i + 1].at != borders_[i].at) note(cover);
  }
}

void AddressPieces::pass(const Border& border, Cover& cover) const {
  if (border.begins) {
    cover.place[border.item] = static_cast<std::uint32_t>(cover.items.size());
    cover.items.push_back(border.item);
  } else {
    const std::uint32_t hole = cover.place[border.item];
    cover.items[hole] = cover.items.back();
    cover.place[cover.items[hole]] = hole;
    cover.items.pop_back();
  }
  if (border.item < buffers_) border.begins ? ++cover.views : --cover.views;
  const Signature own = philox4x32({border.item, 0, 0, 0}, {});
  for (std::size_t word = 0; word < own.size(); ++word) cover.signature[word] ^= own[word];
}

// Bytes that only a buffer covers are of no interest.
void AddressPieces::note(const Cover& cover) {
  if (cover.views == 0 || !seen_.insert(cover.signature).second) return;
  for (const Item item : cover.items) pieces_[item].push_back(count_);
  ++count_;
}

}  // namespace zplan
