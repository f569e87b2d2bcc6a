#include "planner/program/verify_addresses.h"

#include <algorithm>

namespace zplan {

AddressPieces::AddressPieces(const Program& program, const Placement* placement,
                             std::int64_t dp_index)
    : program_(&program), dp_index_(dp_index) {
  place_buffers(placement);
  cut();
  for (const View& v : program.views) {
    first_range_.push_back(ranges_.size());
    for (std::int64_t slot = 0; slot < program.buffers[v.buffer].slots; ++slot)
      ranges_.push_back(range_of(span_of(v, slot)));
  }
  for (BufferId id = 0; id < program.buffers.size(); ++id)
    buffers_.push_back(range_of({base_[id], base_[id] + program.buffers[id].size().value}));
}

void AddressPieces::place_buffers(const Placement* placement) {
  std::int64_t tier_base = 0;
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    std::int64_t top = tier_base;
    base_.resize(program_->buffers.size());
    for (BufferId id = 0; id < program_->buffers.size(); ++id) {
      const Buffer& buffer = program_->buffers[id];
      if (static_cast<std::size_t>(buffer.tier) != tier) continue;
      base_[id] = placement != nullptr ? tier_base + placement->offset[id].value : top;
      top = std::max(top, base_[id] + buffer.size().value);
    }
    tier_base = top;
  }
}

AddressPieces::Span AddressPieces::span_of(const View& view, std::int64_t slot) const {
  const Bytes within = view.offset + view.dp_stride * dp_index_;
  const std::int64_t begin =
      base_[view.buffer] + (program_->buffers[view.buffer].slot_size * slot + within).value;
  return {begin, begin + view.bytes().value};
}

void AddressPieces::cut() {
  for (BufferId id = 0; id < base_.size(); ++id) {
    cuts_.push_back(base_[id]);
    cuts_.push_back(base_[id] + program_->buffers[id].size().value);
  }
  for (const View& v : program_->views) {
    for (std::int64_t slot = 0; slot < program_->buffers[v.buffer].slots; ++slot) {
      const Span span = span_of(v, slot);
      cuts_.push_back(span.begin);
      cuts_.push_back(span.end);
    }
  }
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  count_ = cuts_.size();
}

PieceRange AddressPieces::range_of(Span span) const {
  const auto index = [&](std::int64_t at) {
    return static_cast<std::uint32_t>(std::lower_bound(cuts_.begin(), cuts_.end(), at) -
                                      cuts_.begin());
  };
  return {index(span.begin), index(span.end)};
}

}  // namespace zplan
