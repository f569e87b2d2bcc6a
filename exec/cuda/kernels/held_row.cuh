// A row, of fewer than 2^31 elements, of which each thread of a block keeps its packs in registers,
// so that it is read from memory once however often it is gone over.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

// Calls body(j, values of the pack at j) with this thread's packs of row [begin, end), of which it
// reads kAhead before the first is worked on.
template <int kWidth, int kAhead, typename T, typename Body>
__device__ inline void for_packs_of_row(const T* row, int begin, int end, const Body& body) {
  for_ahead<kAhead>(
      begin + static_cast<int>(threadIdx.x) * kWidth, end, static_cast<int>(blockDim.x) * kWidth,
      [&](int j) { return load_bits<kWidth>(row + j); },
      [&](int j, const auto& pack) { body(j, widen(pack)); });
}

// Of the packs of row [columns] that are this thread's the first kPacks; of longer rows the others
// are read again each time, kAhead at a time. kWidth divides the columns.
template <typename T, int kWidth, int kPacks, int kAhead = 1>
class HeldRow {
 public:
  __device__ HeldRow(const T* row, int columns) : row_(row), columns_(columns) {
    for_own_packs<kWidth, kPacks>(columns,
                                  [&](int p, int j) { packs_[p] = load_bits<kWidth>(row + j); });
  }
  // make(p, j) gives pack p of this thread, at j, and writes it to the row.
  template <typename Make>
  __device__ HeldRow(const T* row, int columns, const Make& make) : row_(row), columns_(columns) {
    for_own_packs<kWidth, kPacks>(columns, [&](int p, int j) { packs_[p] = make(p, j); });
    for_columns<kWidth>(columns - kept(),
                        [&](std::int64_t j) { make(kPacks, static_cast<int>(j) + kept()); });
  }

  // Pack p of this thread, at j.
  __device__ Values<Compute<T>, kWidth> values(int p, int j) const {
    return p < kPacks ? widen(packs_[p]) : load<kWidth>(row_ + j);
  }

  // Calls body(j, values of the pack at j). It may write there what others need not read.
  template <typename Body>
  __device__ void each(const Body& body) const {
    for_own_packs<kWidth, kPacks>(columns_, [&](int p, int j) { body(j, widen(packs_[p])); });
    for_packs_of_row<kWidth, kAhead>(row_, kept(), columns_, body);
  }

 private:
  // Columns that the threads of the block keep.
  __device__ static int kept() { return static_cast<int>(blockDim.x) * kWidth * kPacks; }

  const T* row_;
  int columns_;
  PackBits<T, kWidth> packs_[kPacks == 0 ? 1 : kPacks]{};
};

}  // namespace zplan::exec::cuda
