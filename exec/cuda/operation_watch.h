// Which operation of a lane has been under way for too long. Its time counts from when it was
// queued, or from when the one before it on the lane was seen to be done, whichever is later: the
// launching thread is far ahead of the device. What stands between the two on the device counts as
// well, so the deadline must be longer than any compute.
//
// Each operation is followed by an event. There are so many of them; when all are in use, the
// newest operation takes over the event of the one before it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "exec/comm/barrier.h"
#include "planner/program/job/job.h"

namespace zplan::exec::cuda {

class OperationWatch {
 public:
  using Duration = TimePoint::duration;
  struct Overdue {
    OpId op = 0;
    Duration waited{};
  };

  OperationWatch(std::size_t events, Duration deadline)
      : operations_(events), deadline_(deadline) {}

  bool empty() const { return count_ == 0; }

  // Index of the event that is to be recorded after the operation just queued.
  std::size_t queue(OpId op, TimePoint now) {
    if (count_ < operations_.size()) ++count_;
    const std::size_t newest = (oldest_ + count_ - 1) % operations_.size();
    operations_[newest] = {op, now};
    return newest;
  }

  // The oldest that is under way. `reached(index)`: whether an event was reached. Forgets the
  // operations that are done.
  template <typename Reached>
  std::optional<Overdue> oldest(const Reached& reached, TimePoint now) {
    while (count_ > 0 && reached(oldest_)) {
      oldest_ = (oldest_ + 1) % operations_.size();
      --count_;
      advanced_ = now;
    }
    if (count_ == 0) return std::nullopt;
    const Operation& operation = operations_[oldest_];
    return Overdue{operation.op, now - std::max(operation.queued, advanced_)};
  }

  // The same, where it has been under way for longer than the deadline.
  template <typename Reached>
  std::optional<Overdue> check(const Reached& reached, TimePoint now) {
    const std::optional<Overdue> found = oldest(reached, now);
    return found && found->waited > deadline_ ? found : std::nullopt;
  }

 private:
  struct Operation {
    OpId op = 0;
    TimePoint queued;
  };
  std::vector<Operation> operations_;  // a ring
  std::size_t oldest_ = 0;
  std::size_t count_ = 0;
  TimePoint advanced_{};  // when the oldest became the oldest
  Duration deadline_;
};

}  // namespace zplan::exec::cuda
