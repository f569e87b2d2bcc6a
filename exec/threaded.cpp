#include "exec/threaded.h"

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "exec/comm/thread_comm.h"

namespace zplan::exec {
namespace {

// How many instances a lane has completed, over all steps.
class Progress {
 public:
  explicit Progress(StopSignal& signal) : monitor_(signal) {}

  void wait_for(std::int64_t count) {
    if (completed_.load(std::memory_order_acquire) >= count) return;
    auto lock = monitor_.lock();
    monitor_.wait(lock, [&] { return completed_.load(std::memory_order_acquire) >= count; });
  }
  void advance() {
    const auto lock = monitor_.lock();
    completed_.fetch_add(1, std::memory_order_release);
    monitor_.notify_all();
  }

 private:
  std::atomic<std::int64_t> completed_ = 0;
  Monitor monitor_;
};

class ThreadedRun {
 public:
  explicit ThreadedRun(RunState& state)
      : state_(state),
        comm_(*state.job, signal_),
        start_(static_cast<int>(state.lanes.size()), signal_) {
    for (std::size_t i = 0; i < state.ranks.size() * kLaneCount; ++i)
      progress_.emplace_back(signal_);
  }

  void run() {
    {
      std::vector<std::jthread> threads;
      try {
        for (LaneRun& lane : state_.lanes) threads.emplace_back([&] { drive_safely(lane); });
      } catch (...) {
        fail(std::current_exception());
      }
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Progress& progress(const Rank& rank, Lane lane) {
    return progress_[static_cast<std::size_t>(rank.number) * kLaneCount +
                     static_cast<std::size_t>(lane)];
  }

  // The first failure is the run's; what it causes elsewhere is not reported.
  void fail(std::exception_ptr error) {
    {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::move(error);
    }
    signal_.stop();
  }

  void drive_safely(LaneRun& lane) {
    try {
      drive(lane);
    } catch (const Stopped&) {
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void drive(LaneRun& lane) {
    lane.rank->backend->prepare_thread();
    const TimePoint start = start_.arrive_and_wait();
    if (&lane == &state_.lanes.front()) {
      state_.start = start;
      state_.log.begin(static_cast<int>(state_.lanes.size()), start);
    }
    start_.arrive_and_wait();  // everyone sees it
    for (std::int64_t step = 0; state_.gate.enter(step); ++step) {
      for (std::int64_t i = 0; i < lane.nodes; ++i) {
        run_instance(lane);
        progress(*lane.rank, lane.lane).advance();
        lane.cursor.advance();
      }
    }
  }

  void run_instance(LaneRun& lane) {
    const Rank& rank = *lane.rank;
    const Instance& at = *lane.cursor;
    const Node& node = lane.node();
    for (const Edge& edge : rank.program().after(node)) {
      if (const auto needed = rank.index.resolve(edge, at.iterations))
        progress(rank, needed->lane).wait_for(needed->completed);
    }
    const BoundOperands operands(rank, at);
    Times times;
    times.ready = std::chrono::steady_clock::now();
    times.start = execute(rank, at, operands, times.ready);
    times.end = std::chrono::steady_clock::now();
    complete(state_, lane, operands, times);
  }

  // Returns when the operation started: for communication, when the last partner came.
  TimePoint execute(const Rank& rank, const Instance& at, const BoundOperands& operands,
                    TimePoint ready) {
    const Node& node = rank.node(at);
    const Endpoint& end = comm_.endpoint(rank.number, at.node);
    if (node.kind == OpKind::kCollective)
      return end.group->run(end.index, collective_call(node, operands));
    if (node.kind == OpKind::kSend)
      return end.channel->send(operands[0].data, operands[0].view->bytes());
    if (node.kind == OpKind::kReceive)
      return end.channel->receive(operands[0].data, operands[0].view->bytes());
    execute_local(state_, rank, at, operands);
    return ready;
  }

  RunState& state_;
  StopSignal signal_;
  ThreadComm comm_;
  Barrier start_;
  std::deque<Progress> progress_;  // by (rank, lane)
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace

void run_threaded(RunState& state) { ThreadedRun(state).run(); }

}  // namespace zplan::exec
