#include "exec/schedule/threaded.h"

#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "exec/comm/flag_comm.h"
#include "exec/comm/process_comm.h"
#include "exec/comm/rendezvous.h"
#include "exec/comm/thread_comm.h"
#include "exec/schedule/launcher.h"
#include "exec/schedule/progress.h"
#include "exec/schedule/step_border.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr Seconds kGraceOfQueues{2};  // for the rendezvous to tell of who made communication fail

class ThreadedRun {
 public:
  explicit ThreadedRun(RunState& state) : state_(state) {
    make_comm();
    for (const Rank& rank : state.ranks) make_progress(rank);
    for (LaneRun& lane : state.lanes)
      if (!is_queue(*lane.rank, lane.lane)) threads_.push_back(&lane);
    for (const Rank& rank : state.ranks)
      if (has_queues(rank)) make_launcher(rank);
    const auto all = static_cast<int>(threads_.size() + launchers_.size());
    start_ = std::make_unique<Barrier>(all, signal_);
    border_ = std::make_unique<StepBorder>(state.border, all, signal_);
    for (auto& [rank, launcher] : launchers_) launcher->set_border(*border_);
    state.gate.on_vain([this] { signal_.stop(); });
  }

  void run() {
    {
      std::optional<LossWatch> watch;
      if (Rendezvous* rendezvous = state_.options->rendezvous.get())
        watch.emplace(
            *rendezvous, [this](const Loss& loss) { tell(loss); },
            [this](std::int64_t step) { state_.gate.give_up(step); });
      std::vector<std::jthread> threads;
      try {
        for (LaneRun* lane : threads_)
          threads.emplace_back([&, lane] { run_safely(*lane->rank, [&] { drive(*lane); }); });
        for (auto& [rank, launcher] : launchers_)
          threads.emplace_back([&, rank = rank, launcher = launcher.get()] {
            run_safely(*rank, [launcher] { launcher->run(); });
          });
      } catch (...) {
        fail(std::current_exception());
      }
    }
    if (loss_ && state_.queued_comm) throw lost(*loss_, *state_.queued_comm);
    if (error_) std::rethrow_exception(error_);
    // Connections are open until nobody waits for what a step brings that is given up.
    if (Rendezvous* rendezvous = state_.options->rendezvous.get()) rendezvous->exchange("");
  }

 private:
  static bool has_queues(const Rank& rank) { return rank.backend->queues() != nullptr; }
  static bool is_queue(const Rank& rank, Lane lane) {
    return has_queues(rank) && is_launched(lane);
  }

  void make_comm() {
    const Rank& first = state_.ranks.front();
    Rendezvous* rendezvous = state_.options->rendezvous.get();
    if (has_queues(first) && rendezvous == nullptr) {
      state_.queued_comm = std::make_unique<FlagComm>(state_);
    } else if (has_queues(first)) {
      connect(first, *rendezvous);
    } else if (rendezvous == nullptr) {
      comm_ = std::make_unique<ThreadComm>(*state_.job, signal_);
    } else {
      const auto deadline = static_cast<double>(state_.options->comm_deadline.count());
      comm_ = std::make_unique<ProcessComm>(*state_.job, *rendezvous, signal_, Seconds{deadline});
    }
  }

  void connect(const Rank& rank, Rendezvous& rendezvous) {
    const auto exchange = [&](const std::string& own) { return rendezvous.exchange(own); };
    const auto check = [&] {
      if (const auto loss = rendezvous.loss()) throw Error(ExitCode::kDevice, describe(*loss));
    };
    try {
      state_.queued_comm = state_.options->device->make_comm(
          *rank.backend->queues(),
          {state_.job, rank.number, exchange, state_.options->comm_deadline, check});
    } catch (const Error& error) {
      const std::optional<Loss> loss = loss_behind(error);
      if (!loss || error.what() == describe(*loss)) throw;
      throw Error(ExitCode::kDevice, describe(*loss) + "; " + error.what());
    }
  }

  // Of another process, that the rendezvous knows of or soon will.
  std::optional<Loss> loss_behind(const Error& error) const {
    const Rendezvous* const rendezvous = state_.options->rendezvous.get();
    if (rendezvous == nullptr || error.code() != ExitCode::kDevice) return std::nullopt;
    return rendezvous->wait_for_loss(kGraceOfQueues);
  }

  // Its threads have ended. A device that has failed says nothing.
  static Error lost(const Loss& loss, QueuedComm& comm) {
    std::string at;
    try {
      at = comm.under_way();
    } catch (const Error&) {
    }
    return {ExitCode::kDevice, describe(loss) + (at.empty() ? "" : "; under way here: " + at)};
  }

  // The loss of another process ends this one.
  void tell(const Loss& loss) {
    const auto* comm = dynamic_cast<const ProcessComm*>(comm_.get());
    {
      const std::lock_guard lock(error_mutex_);
      if (!error_) loss_ = loss;
    }
    fail(std::make_exception_ptr(comm != nullptr ? comm->lost(loss)
                                                 : Error(ExitCode::kDevice, describe(loss))));
  }

  void make_progress(const Rank& rank) {
    std::span<Flag> flags;
    if (has_queues(rank)) {
      flags = rank.backend->queues()->make_flags(kLaneCount);
    } else {
      flags = own_flags_.emplace_back();
    }
    for (int l = 0; l < kLaneCount; ++l) {
      progress_.emplace_back(signal_, flags[static_cast<std::size_t>(l)],
                             is_queue(rank, static_cast<Lane>(l)));
    }
  }

  void make_launcher(const Rank& rank) {
    std::vector<LaneRun*> lanes;
    for (LaneRun& lane : state_.lanes)
      if (lane.rank == &rank && is_launched(lane.lane)) lanes.push_back(&lane);
    HostSide host{.signal = &signal_};
    for (int l = 0; l < kLaneCount; ++l)
      host.progress[static_cast<std::size_t>(l)] = &progress(rank, static_cast<Lane>(l));
    launchers_.emplace_back(&rank, std::make_unique<Launcher>(state_, rank, std::move(lanes),
                                                              *state_.queued_comm, host));
  }

  Progress& progress(const Rank& rank, Lane lane) {
    const std::ptrdiff_t place = &rank - state_.ranks.data();
    return progress_[static_cast<std::size_t>(place) * kLaneCount + static_cast<std::size_t>(lane)];
  }

  // The first failure is the run's; what it causes elsewhere is not reported.
  void fail(std::exception_ptr error) {
    {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::move(error);
    }
    signal_.stop();
  }

  template <typename Body>
  void run_safely(const Rank& rank, const Body& body) {
    try {
      rank.backend->prepare_thread();
      begin();
      body();
    } catch (const Stopped&) {
    } catch (const Error& error) {
      const std::exception_ptr own = std::current_exception();
      const std::optional<Loss> loss = has_queues(rank) ? loss_behind(error) : std::nullopt;
      loss ? tell(*loss) : fail(own);
    } catch (...) {
      fail(std::current_exception());
    }
  }

  // All threads set out together.
  void begin() {
    const TimePoint start = start_->arrive_and_wait();
    std::call_once(started_, [&] {
      state_.start = start;
      state_.log.begin(static_cast<int>(state_.lanes.size()), start);
    });
  }

  void drive(LaneRun& lane) {
    for (std::int64_t step = 0; enter(step); ++step) {
      for (std::int64_t i = 0; i < lane.nodes; ++i) {
        if (!run_instance(lane)) return;
        progress(*lane.rank, lane.lane).advance();
        lane.cursor.advance();
      }
    }
  }

  bool enter(std::int64_t step) {
    if (step > 0 && !state_.gate.goes_on(step - 1, false)) return false;
    border_->cross(step);
    return state_.gate.enter(step);
  }

  // False where its step is given up.
  bool run_instance(LaneRun& lane) {
    const Rank& rank = *lane.rank;
    const Instance& at = *lane.cursor;
    const Node& node = lane.node();
    for (const Edge& edge : rank.program().after(node)) {
      if (const auto needed = rank.index.resolve(edge, at.iterations))
        progress(rank, needed->lane).wait_for(needed->completed);
    }
    if (!goes_on(state_, lane)) return false;
    const BoundOperands operands(rank, at);
    Times times;
    times.ready = std::chrono::steady_clock::now();
    times.start = execute(rank, at, operands, times.ready);
    times.end = std::chrono::steady_clock::now();
    complete(state_, lane, operands, times);
    if (launchers_.empty()) state_.gate.poll(times.end);
    return true;
  }

  // Returns when the operation started: for communication, when the last partner came.
  TimePoint execute(const Rank& rank, const Instance& at, const BoundOperands& operands,
                    TimePoint ready) {
    const Node& node = rank.node(at);
    if (is_skipped(state_, rank, at.node, at.step())) return ready;
    if (node.kind == OpKind::kCollective)
      return comm_->collective(rank.number, at.node, collective_call(rank, node, operands));
    if (node.kind == OpKind::kSend)
      return comm_->send(rank.number, at.node, operands[0].data, operands[0].view->bytes());
    if (node.kind == OpKind::kReceive)
      return comm_->receive(rank.number, at.node, operands[0].data, operands[0].view->bytes());
    execute_local(state_, rank, at, at.step(), operands);
    return ready;
  }

  RunState& state_;
  StopSignal signal_;
  std::unique_ptr<Comm> comm_;  // of lanes that are threads
  std::deque<std::array<Flag, kLaneCount>> own_flags_;
  std::deque<Progress> progress_;  // by (rank, lane)
  std::vector<LaneRun*> threads_;
  std::vector<std::pair<const Rank*, std::unique_ptr<Launcher>>> launchers_;
  std::unique_ptr<Barrier> start_;
  std::unique_ptr<StepBorder> border_;
  std::once_flag started_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::optional<Loss> loss_;  // where it is the error
};

}  // namespace

void run_threaded(RunState& state) { ThreadedRun(state).run(); }

}  // namespace zplan::exec
