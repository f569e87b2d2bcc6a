// Runs CUDA kernels on the host, so that unit tests and sanitizers see them: this header, then the
// .cu files, in one translation unit compiled as C++. A thread of a block is a fiber; blocks run
// one after the other, the last first, since a kernel must not depend on their order. Shared memory
// is static memory of the thread that runs the kernel, __syncthreads() a barrier of the block, and
// what lanes of a warp exchange goes through memory of the warp. A thread that misses a barrier
// ends the test. How kernels are launched, launch_on_host.h or gpu/queued_launch.h says. Left out:
// what no kernel here uses, such as asynchronous copies, matrix instructions and masks of less than
// a warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "tests/support/fibers.h"

#ifdef __CUDACC__
#error "a device runs kernels by itself"
#endif

#undef __global__
#undef __device__
#undef __shared__
#undef __grid_constant__
#undef __launch_bounds__
#define __global__
#define __device__
#define __shared__ static thread_local
#define __grid_constant__
#define __launch_bounds__(...)

namespace zplan::cuda_on_host {

using testing_support::Fibers;

class Barrier {
 public:
  explicit Barrier(unsigned threads) : threads_(threads) {}

  void wait() {
    const unsigned round = round_.load();
    Fibers::moved();
    if (waiting_.fetch_add(1) + 1 == threads_) {
      waiting_.store(0);
      round_.fetch_add(1);
    } else {
      while (round_.load() == round) Fibers::give_way();
    }
  }

 private:
  unsigned threads_;
  std::atomic<unsigned> waiting_{0}, round_{0};
};

inline constexpr unsigned kWarp = 32;

// What each of so many threads says, for all of them to read.
struct Board {
  explicit Board(unsigned threads) : barrier(threads), words(threads) {}
  Barrier barrier;
  std::vector<std::uint64_t> words;
};

struct Block {
  explicit Block(unsigned threads) : board(threads) {
    for (unsigned begin = 0; begin < threads; begin += kWarp)
      warps.emplace_back(threads - begin < kWarp ? threads - begin : kWarp);
  }
  Board board;
  std::deque<Board> warps;
};

// A thread of a kernel and where it is.
struct Thread {
  Block* block = nullptr;
  uint3 index{}, block_index{};
  dim3 threads, blocks;

  Board& warp() const { return block->warps[index.x / kWarp]; }
  unsigned lane() const { return index.x % kWarp; }
};
inline thread_local std::vector<Thread>* running = nullptr;

// The one that asks.
inline Thread& self() { return (*running)[Fibers::self()]; }

// read(words) of a board once all its threads have put theirs there.
template <typename Read>
auto exchange(Board& board, unsigned place, std::uint64_t word, const Read& read) {
  board.words[place] = word;
  board.barrier.wait();
  const auto result = read(board.words);
  board.barrier.wait();  // the words may be written again
  return result;
}

template <typename T>
T of_lane(T value, unsigned from) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  const Thread& own = self();
  word = exchange(own.warp(), own.lane(), word, [&](const auto& words) { return words[from]; });
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

// Runs kernel(arguments...) on a grid of one dimension and returns when it is done.
template <typename Kernel>
void run(unsigned blocks, unsigned threads, const Kernel& kernel) {
  Block block(threads);
  std::vector<Thread> all(threads);
  running = &all;
  Fibers::run(threads, [&](unsigned index) {
    Thread& own = all[index];
    own = {&block, {index, 0, 0}, {}, dim3(threads), dim3(blocks)};
    for (unsigned i = blocks; i-- > 0;) {
      own.block_index = {i, 0, 0};
      kernel();
      block.board.barrier.wait();
    }
  });
}

}  // namespace zplan::cuda_on_host

// ---- what kernels call -------------------------------------------------------------------------

#define threadIdx (zplan::cuda_on_host::self().index)
#define blockIdx (zplan::cuda_on_host::self().block_index)
#define blockDim (zplan::cuda_on_host::self().threads)
#define gridDim (zplan::cuda_on_host::self().blocks)

inline void __syncthreads() { zplan::cuda_on_host::self().block->board.barrier.wait(); }

inline int __syncthreads_or(int predicate) {
  const auto any_of = [](const auto& words) {
    int any = 0;
    for (const std::uint64_t word : words) any |= word != 0;
    return any;
  };
  return zplan::cuda_on_host::exchange(zplan::cuda_on_host::self().block->board, threadIdx.x,
                                       predicate != 0 ? 1 : 0, any_of);
}

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return zplan::cuda_on_host::of_lane(
      value, zplan::cuda_on_host::self().lane() ^ static_cast<unsigned>(mask));
}

inline unsigned __ballot_sync(unsigned, int predicate) {
  const auto set_lanes = [](const auto& words) {
    unsigned lanes = 0;
    for (std::size_t i = 0; i < words.size(); ++i) lanes |= static_cast<unsigned>(words[i]) << i;
    return lanes;
  };
  const auto& own = zplan::cuda_on_host::self();
  return zplan::cuda_on_host::exchange(own.warp(), own.lane(), predicate != 0 ? 1 : 0, set_lanes);
}

inline int __ffs(int word) { return __builtin_ffs(word); }
inline std::uint32_t __float_as_uint(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float __uint_as_float(std::uint32_t word) { return std::bit_cast<float>(word); }
