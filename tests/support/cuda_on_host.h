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

  // How often all have met; that of a thread which is not in wait().
  unsigned round() const { return round_.load(std::memory_order_relaxed); }

  // No thread is interrupted here: what it has read is as it was.
  void wait() {
    const unsigned round = round_.load(std::memory_order_relaxed);
    const unsigned waiting = waiting_.load(std::memory_order_acquire) + 1;
    if (waiting == threads_) {
      waiting_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
    } else {
      waiting_.store(waiting, std::memory_order_release);
      Fibers::wait_while(round_, round);
    }
  }

 private:
  unsigned threads_;
  std::atomic<unsigned> waiting_{0}, round_{0};
};

inline constexpr unsigned kWarp = 32;

// What each of so many threads says, for all of them to read. There are two sides, which take
// turns: who has met the others again may write to one while they still read the other.
struct Board {
  using Words = std::vector<std::uint64_t>;
  explicit Board(unsigned threads) : barrier(threads), sides{Words(threads), Words(threads)} {}
  Barrier barrier;
  Words sides[2];
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
  Board* warp = nullptr;
  uint3 index{}, block_index{};
  dim3 threads, blocks;

  unsigned lane() const { return index.x % kWarp; }
};
inline constinit thread_local Thread* running = nullptr;  // those of a block

// The one that asks.
inline Thread& self() { return running[Fibers::self()]; }

// read(words) of a board once all its threads have put theirs there.
template <typename Read>
auto exchange(Board& board, unsigned place, std::uint64_t word, const Read& read) {
  Board::Words& words = board.sides[board.barrier.round() % 2];
  words[place] = word;
  board.barrier.wait();
  return read(words);
}

template <typename T>
T of_lane(T value, unsigned from) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  const Thread& own = self();
  word = exchange(*own.warp, own.lane(), word, [&](const auto& words) { return words[from]; });
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

// Runs kernel(arguments...) on a grid of one dimension and returns when it is done.
template <typename Kernel>
void run(unsigned blocks, unsigned threads, const Kernel& kernel) {
  Block block(threads);
  std::vector<Thread> all(threads);
  running = all.data();
  Fibers::run(threads, [&](unsigned index) {
    Thread& own = all[index];
    own = {&block, &block.warps[index / kWarp], {index, 0, 0}, {}, dim3(threads), dim3(blocks)};
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

inline void __syncwarp() { zplan::cuda_on_host::self().warp->barrier.wait(); }

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
  return zplan::cuda_on_host::exchange(*own.warp, own.lane(), predicate != 0 ? 1 : 0, set_lanes);
}

inline int __ffs(int word) { return __builtin_ffs(word); }
inline std::uint32_t __float_as_uint(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float __uint_as_float(std::uint32_t word) { return std::bit_cast<float>(word); }
