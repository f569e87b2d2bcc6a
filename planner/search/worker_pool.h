// Runs a body for indices 0 .. n-1 on a fixed number of threads, the calling one included.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zplan {

class WorkerPool {
 public:
  explicit WorkerPool(int threads);  // less than 1 means 1
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Returns when all have run. Of what the body throws, the exception of the least index is thrown
  // again. Not to be called from within a body.
  void for_each(std::size_t n, const std::function<void(std::size_t)>& body);

 private:
  struct Work {
    std::size_t n = 0;
    const std::function<void(std::size_t)>* body = nullptr;
    std::vector<std::exception_ptr> errors;  // by index
  };
  void serve();
  void take_part();

  Work work_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;  // guarded by mutex_, like the two below
  std::size_t busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace zplan
