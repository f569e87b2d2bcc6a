#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stop_token>
#include <thread>

#include "exec/offload/block_queue.h"

namespace zplan::exec {
namespace {

// Threads that each wait for the system. [assumed] a drive wants several requests at once; each
// engine has threads of its own
constexpr std::size_t kPosixDepth = 4;

// No more blocks than may be in flight, first in, first out. Allocates nothing.
template <class T>
class Line {
 public:
  bool is_empty() const { return count_ == 0; }
  void push(const T& value) { entries_[(first_ + count_++) % kPosixDepth] = value; }
  T pop() {
    const T value = entries_[first_];
    first_ = (first_ + 1) % kPosixDepth;
    --count_;
    return value;
  }

 private:
  std::array<T, kPosixDepth> entries_{};
  std::size_t first_ = 0, count_ = 0;
};

class PosixQueue : public BlockQueue {
 public:
  PosixQueue() {
    for (std::jthread& thread : threads_)
      thread = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  IoMethod method() const override { return IoMethod::kPosix; }
  int depth() const override { return static_cast<int>(kPosixDepth); }

  void submit(const Block& block) override {
    const std::lock_guard lock(mutex_);
    asked_.push(block);
    is_asked_.notify_one();
  }

  BlockResult wait() override {
    std::unique_lock lock(mutex_);
    is_done_.wait(lock, [&] { return !done_.is_empty(); });
    return done_.pop();
  }

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (is_asked_.wait(lock, stop, [&] { return !asked_.is_empty(); })) {
      const Block block = asked_.pop();
      lock.unlock();
      const BlockResult result = move(block);
      lock.lock();
      done_.push(result);
      is_done_.notify_one();
    }
  }

  static BlockResult move(const Block& block) {
    const auto bytes = static_cast<std::size_t>(block.bytes);
    const ssize_t moved = block.kind == IoKind::kRead
                              ? ::pread(block.descriptor, block.data, bytes, block.offset)
                              : ::pwrite(block.descriptor, block.data, bytes, block.offset);
    return {block.slot, moved < 0 ? -errno : moved};
  }

  std::mutex mutex_;
  std::condition_variable_any is_asked_;
  std::condition_variable is_done_;
  Line<Block> asked_;
  Line<BlockResult> done_;
  std::array<std::jthread, kPosixDepth> threads_;  // they end first
};

}  // namespace

std::unique_ptr<BlockQueue> make_posix_queue() { return std::make_unique<PosixQueue>(); }

}  // namespace zplan::exec
