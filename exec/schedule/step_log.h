// Collects the results of steps: a step is complete when all lanes of all ranks have ended it.
// Tells the caller of each as it completes, in order, with its number in the training. A loss that
// is no number ends the run by Error(kCheckFailed).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/comm/barrier.h"
#include "exec/host_kernels.h"
#include "exec/run.h"
#include "planner/core/error.h"

namespace zplan::exec {

class StepLog {
 public:
  using Listener = std::function<void(std::int64_t step, const StepResult&)>;

  StepLog(std::int64_t steps, const RunServices& services, Listener listener)
      : services_(&services),
        listener_(std::move(listener)),
        pending_(static_cast<std::size_t>(steps)) {
    results_.reserve(pending_.size());
  }

  // Before any lane ends a step.
  void begin(int lanes, TimePoint start) {
    lanes_ = lanes;
    previous_ = start;
  }

  void lane_done(std::int64_t step, TimePoint end) {
    const std::lock_guard lock(mutex_);
    Pending& entry = pending_[static_cast<std::size_t>(step)];
    entry.end = std::max(entry.end, end);
    // No lane ends a step before the one ahead of it, so steps complete in order.
    if (++entry.lanes == lanes_) complete(step, std::max(entry.end, previous_));
  }

  const std::vector<StepResult>& results() const { return results_; }

 private:
  struct Pending {
    int lanes = 0;  // that ended it
    TimePoint end{};
  };

  // Nothing that follows would mean anything. Of a skipped update the parameters are as before.
  void check_finite(std::int64_t step, const StepResult& result) const {
    if (result.skipped || (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)))
      return;
    throw Error(ExitCode::kCheckFailed,
                "step " + std::to_string(step + 1) + " of " +
                    std::to_string(services_->start().step + std::ssize(pending_)) +
                    ": expected a finite loss and gradient norm, got " +
                    std::to_string(result.loss) + " and " + std::to_string(result.gradient_norm) +
                    "; try a lower learning rate, or look at the data");
  }

  void complete(std::int64_t step, TimePoint end) {
    step += services_->start().step;
    StepResult result = services_->report_of(step);
    check_finite(step, result);
    result.wall = {std::chrono::duration<double>(end - previous_).count()};
    previous_ = end;
    results_.push_back(result);
    if (listener_) listener_(step, result);
  }

  std::mutex mutex_;
  const RunServices* services_;
  Listener listener_;
  int lanes_ = 0;
  TimePoint previous_;
  std::vector<Pending> pending_;  // by step
  std::vector<StepResult> results_;
};

}  // namespace zplan::exec
