// Decides how many steps a run has (step_decisions.h). All lanes of all ranks must run the same
// number, although they enter a step at different times. Where the ranks are processes these agree
// on each step before its first lane enters, and before it is ended or its first state is changed.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

#include "exec/comm/barrier.h"
#include "exec/comm/step_decisions.h"
#include "exec/schedule/interruption.h"

namespace zplan::exec {

// How the processes of a run decide together; what one of them gives up is told to all by
// StepGate::give_up().
struct StepAgreement {
  std::function<bool(std::int64_t step, bool interrupted)> enter{};  // asked in order
  std::function<bool(std::int64_t step)> change{};
  std::function<void()> give_up{};
};

class StepGate {
 public:
  StepGate(std::int64_t steps, Interruption interruption, StepAgreement agreement = {})
      : planned_(steps),
        limit_(steps),
        interruption_(std::move(interruption)),
        agreement_(std::move(agreement)),
        own_(steps) {
    if (agreement_.enter) return;
    agreement_ = {.enter =
                      [this](std::int64_t step, bool interrupted) {
                        if (interrupted) own_.interrupt();
                        return own_.enter(step);
                      },
                  .change = [this](std::int64_t step) { return own_.change(step); },
                  .give_up =
                      [this] {
                        const std::lock_guard lock(mutex_);
                        if (const auto step = own_.give_up()) give_up(*step);
                      }};
  }
  StepGate(const StepGate&) = delete;
  StepGate& operator=(const StepGate&) = delete;

  // Called when steps are given up and all lanes have ended those before them, so that whoever
  // waits waits in vain.
  void on_vain(std::function<void()> callback) { all_are_in_vain_ = std::move(callback); }

  // Whether a lane may begin this step.
  bool enter(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    if (step >= limit()) return false;
    if (step < entered_) return true;
    const bool interrupted = interruption_.between_steps && interruption_.between_steps();
    entered_ = step + 1;
    if (!agreement_.enter(step, interrupted)) limit_ = step;
    return step < limit();
  }

  // Whether an operation of a step that was entered is still done. Asked of each.
  bool goes_on(std::int64_t step, bool changes_state) {
    if (step >= given_up_.load(std::memory_order_acquire)) return false;
    if (!changes_state || step < changed_.load(std::memory_order_acquire)) return true;
    const std::lock_guard lock(mutex_);
    if (step < changed_) return true;
    if (!agreement_.change(step)) return false;
    changed_.store(step + 1, std::memory_order_release);
    return true;
  }

  // Whether a step that all lanes have ended counts. Asked in order.
  bool end(std::int64_t step) {
    if (!goes_on(step, true)) return false;
    const std::lock_guard lock(vain_mutex_);
    ended_ = step + 1;
    tell_in_vain();
    return true;
  }

  // Asked between operations.
  void poll(TimePoint now) {
    if (!interruption_.within_step || now.time_since_epoch().count() < next_poll_) return;
    const std::unique_lock lock(poll_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    const bool gives_up = interruption_.within_step();
    next_poll_ = gives_up ? kNever : (now + kPause).time_since_epoch().count();
    if (gives_up) agreement_.give_up();
  }

  // This step and all behind it; from any thread, also while a lane asks the other processes.
  void give_up(std::int64_t step) {
    given_up_.store(step, std::memory_order_release);
    const std::lock_guard lock(vain_mutex_);
    tell_in_vain();
  }

  // Steps that are run by all lanes. Final once a lane was refused.
  std::int64_t limit() const { return std::min(limit_, given_up_.load()); }
  bool was_interrupted() const { return limit() < planned_; }
  // Whether that is because the step behind them was given up.
  bool gave_up() const { return given_up_ < planned_; }

 private:
  void tell_in_vain() {
    if (all_are_in_vain_ && ended_ >= given_up_) std::exchange(all_are_in_vain_, nullptr)();
  }

  static constexpr std::chrono::milliseconds kPause{50};
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  std::mutex mutex_;
  std::int64_t planned_, limit_;
  std::int64_t entered_ = 0;  // steps that some lane has begun
  Interruption interruption_;
  StepAgreement agreement_;
  StepDecisions own_;  // where no other process takes part
  std::atomic<std::int64_t> changed_ = 0, given_up_ = kNever;

  std::mutex poll_mutex_;
  std::atomic<TimePoint::rep> next_poll_ = 0;

  std::mutex vain_mutex_;
  std::int64_t ended_ = 0;  // steps, by all lanes
  std::function<void()> all_are_in_vain_;
};

}  // namespace zplan::exec
