#include "planner/search/worker_pool.h"

namespace zplan {

WorkerPool::WorkerPool(int threads) {
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::for_each(std::size_t n, const std::function<void(std::size_t)>& body) {
  work_ = {n, &body, std::vector<std::exception_ptr>(n)};
  next_ = 0;
  if (n > 1) {
    {
      const std::lock_guard lock(mutex_);
      ++round_;
      busy_ = threads_.size();
    }
    changed_.notify_all();
  }
  take_part();
  if (n > 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return busy_ == 0; });
  }
  for (const std::exception_ptr& error : work_.errors)
    if (error) std::rethrow_exception(error);
}

void WorkerPool::serve() {
  std::uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    take_part();
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
}

void WorkerPool::take_part() {
  for (std::size_t i = next_++; i < work_.n; i = next_++) {
    try {
      (*work_.body)(i);
    } catch (...) {
      work_.errors[i] = std::current_exception();
    }
  }
}

}  // namespace zplan
