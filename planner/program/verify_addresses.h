// The bytes that the views of a Program touch, cut into pieces such that every view covers whole
// pieces. Pieces are numbered by tier and address; buffers that share addresses share pieces.
// Without placement every buffer has addresses of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/program/job.h"

namespace zplan {

struct PieceRange {
  std::uint32_t begin = 0, end = 0;
};

class AddressPieces {
 public:
  // Addresses as the rank with this dp index sees them. `placement`: null when there is none.
  AddressPieces(const Program& program, const Placement* placement, std::int64_t dp_index);

  std::size_t count() const { return count_; }
  // Index of the view in Program::views.
  PieceRange of(std::size_t view, std::int64_t slot) const {
    return ranges_[first_range_[view] + static_cast<std::size_t>(slot)];
  }
  PieceRange of_buffer(BufferId id) const { return buffers_[id]; }

 private:
  struct Span {
    std::int64_t begin, end;
  };
  Span span_of(const View& view, std::int64_t slot) const;
  void place_buffers(const Placement* placement);
  void cut();
  PieceRange range_of(Span span) const;

  const Program* program_;
  std::int64_t dp_index_;
  std::vector<std::int64_t> base_;  // address of each buffer, tiers one after the other
  std::vector<std::int64_t> cuts_;
  std::size_t count_ = 0;
  std::vector<std::size_t> first_range_;
  std::vector<PieceRange> ranges_;  // [view, slot]
  std::vector<PieceRange> buffers_;
};

}  // namespace zplan
