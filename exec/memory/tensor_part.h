// What one piece of a unit holds of a global tensor: which element of the tensor each of its own
// elements is. Pieces are numbered over tensor parallel ranks and tiles (planner/program/job/job.h:
// Split). Elements are row-major in both.
#pragma once

#include <cstdint>

#include "planner/program/job/piece_axes.h"

namespace zplan::exec {

// Number of the piece that the rank at this place holds in a tile: pieces of one rank's experts
// after those of another's.
inline std::int64_t piece_number(const Job& job, const Unit& unit, const MeshPoint& at,
                                 std::int64_t tile) {
  const std::int64_t block = job.mesh.index_in(unit.experts, at);
  const AxisSet axes = piece_axes(job.mesh, unit.experts);
  const std::int64_t rank = block * job.mesh.size(axes) + job.mesh.index_in(axes, at);
  return rank * unit.tiles + tile;
}
inline std::int64_t piece_count(const Job& job, const Unit& unit) {
  return std::int64_t{job.mesh.size(unit.experts | piece_axes(job.mesh, unit.experts))} *
         unit.tiles;
}

class TensorPart {
 public:
  // Refers to the tensor.
  TensorPart(const Tensor& tensor, std::int64_t piece, std::int64_t pieces);

  // Of the piece, with padded rows.
  std::int64_t elements() const { return rows_ * columns_; }

  // The longest run of elements from `local` on that is contiguous in the tensor too.
  struct Run {
    std::int64_t global = 0;  // first element in the tensor; kPadding: in none
    std::int64_t length = 0;
  };
  static constexpr std::int64_t kPadding = -1;
  Run run_from(std::int64_t local) const;

  // Calls use(local, run) for the runs that cover elements [begin, end), padding left out.
  template <typename Use>
  void for_runs(std::int64_t begin, std::int64_t end, const Use& use) const {
    for (std::int64_t local = begin; local < end;) {
      Run run = run_from(local);
      if (run.length > end - local) run.length = end - local;
      if (run.global != kPadding) use(local, run);
      local += run.length;
    }
  }

 private:
  Run run_in_row(std::int64_t row, std::int64_t column) const;

  const Tensor* tensor_;
  std::int64_t first_row_ = 0;   // of the rank's experts, where the tensor is not cut by rows
  std::int64_t piece_, pieces_;  // of these
  std::int64_t rows_, columns_;  // of the piece
};

}  // namespace zplan::exec
