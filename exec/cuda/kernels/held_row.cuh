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

// Copies 2 to 16 bytes to shared memory, which the thread itself may read after await_copies().
template <typename Words>
__device__ inline void copy_ahead(Words* to, const Words* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(Words) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
    return;
  }
#endif
  *to = *from;
}

__device__ inline void await_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Of the packs of row [columns] that are this thread's the first kPacks and, in shared memory,
// kShared more; of longer rows the others are read again each time, kAhead at a time. kWidth
// divides the columns. A block has one row with packs in shared memory at a time, and at most
// kMostRowThreads threads.
template <typename T, int kWidth, int kPacks, int kAhead = 1, int kShared = 0>
class HeldRow {
 public:
  static constexpr int kPackWidth = kWidth;

  __device__ HeldRow(const T* row, int columns) : row_(row), columns_(columns) {
    for_shared_packs(
        [&](Moved* pack, int j) { copy_ahead(pack, reinterpret_cast<const Moved*>(row + j)); });
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
    if constexpr (kShared > 0) await_copies();
    for_shared_packs([&](const Moved* pack, int j) { body(j, widen(PackBits<T, kWidth>{*pack})); });
    for_packs_of_row<kWidth, kAhead>(row_, kept(), columns_, body);
  }

 private:
  using Moved = Words<sizeof(T) * kWidth>;

  // Columns that the threads of the block keep.
  __device__ static int kept() {
    return static_cast<int>(blockDim.x) * kWidth * (kPacks + kShared);
  }

  // Where this thread keeps pack p of those in shared memory.
  __device__ static Moved* shared_pack(int p) {
    __shared__ Moved packs[kShared][kMostRowThreads];
    return &packs[p][threadIdx.x];
  }
  // Calls body(where it is kept, j) with them.
  template <typename Body>
  __device__ void for_shared_packs(const Body& body) const {
    if constexpr (kShared > 0) {
#pragma unroll 1
      for (int p = 0; p < kShared; ++p) {
        const int j = static_cast<int>(threadIdx.x + (kPacks + p) * blockDim.x) * kWidth;
        if (j < columns_) body(shared_pack(p), j);
      }
    }
  }

  const T* row_;
  int columns_;
  PackBits<T, kWidth> packs_[kPacks == 0 ? 1 : kPacks]{};
};

}  // namespace zplan::exec::cuda
