// Threads that stand for processes, a rank each: they meet, tell each other what they have, and all
// end when one fails.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/comm/barrier.h"

namespace zplan::exec {

class RankThreads {
 public:
  explicit RankThreads(int ranks)
      : texts_(static_cast<std::size_t>(ranks)),
        numbers_(texts_.size()),
        barrier_(ranks, signal_) {}

  int ranks() const { return static_cast<int>(texts_.size()); }
  // Returns when all are through with it; the first failure is thrown.
  void run(const std::function<void(int rank)>& body);
  // Ends the waits of all.
  void fail(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::move(error);
    }
    signal_.stop();
  }

  // What follows is called by all ranks in the same order; throws Stopped where one has failed.
  void meet() { barrier_.arrive_and_wait(); }
  // What all have, by rank.
  std::vector<std::string> exchange(int rank, const std::string& own) {
    return told(texts_, rank, own);
  }
  std::vector<double> exchange(int rank, double own) { return told(numbers_, rank, own); }

  // Of a rank that waits for something else.
  void check() const {
    if (signal_.stopped()) throw Stopped{};
  }

 private:
  template <typename Value>
  std::vector<Value> told(std::vector<Value>& values, int rank, const Value& own) {
    values[static_cast<std::size_t>(rank)] = own;
    meet();
    std::vector<Value> all = values;
    meet();
    return all;
  }

  StopSignal signal_;
  std::vector<std::string> texts_;
  std::vector<double> numbers_;
  Barrier barrier_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

inline void RankThreads::run(const std::function<void(int rank)>& body) {
  {
    std::vector<std::jthread> threads;
    const auto run_one = [this, &body](int rank) {
      try {
        body(rank);
      } catch (const Stopped&) {
      } catch (...) {
        fail(std::current_exception());
      }
    };
    try {
      for (int rank = 0; rank < ranks(); ++rank) threads.emplace_back(run_one, rank);
    } catch (...) {
      fail(std::current_exception());  // there is no thread to be had
    }
  }
  if (error_) std::rethrow_exception(error_);
}

}  // namespace zplan::exec
