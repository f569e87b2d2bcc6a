// Collects the results of steps: a step is complete when all lanes of all ranks have ended it.
// Tells the caller of each as it completes, in order, with its number in the training. A loss that
// is no number ends the run by Error(kCheckFailed), and so do updates that are skipped one after
// the other although the loss scale is at its least, or the loss is not scaled.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/comm/barrier.h"
#include "exec/host_kernels.h"
#include "exec/run.h"
#include "planner/core/error.h"

namespace zplan::exec {

// So many such updates in a row. Halving the loss scale mends none of them, while a training that
// begins with a scale of 65,536 may skip its first 16 until the gradients fit: those do not count.
// [assumed] A few bad batches in a row are survived, and of a training whose parameters are no
// numbers any more no more than so many steps are lost.
inline constexpr int kMostSkipped = 8;

class StepLog {
 public:
  using Listener = std::function<void(std::int64_t step, const StepResult&)>;
  using ValidationListener = std::function<void(const ValidationResult&)>;

  // `counts`: whether a step that all lanes have ended does (step_gate.h); empty: it does.
  StepLog(const RunServices& services, Listener listener, ValidationListener validated,
          std::function<bool(std::int64_t step)> counts = {})
      : services_(&services),
        listener_(std::move(listener)),
        validated_(std::move(validated)),
        counts_(std::move(counts)),
        pending_(static_cast<std::size_t>(services.steps().size())) {
    results_.reserve(static_cast<std::size_t>(services.steps().training_steps()));
    validations_.reserve(static_cast<std::size_t>(services.steps().validations()));
  }

  // Before any lane ends a step.
  void begin(int lanes, TimePoint start) {
    lanes_ = lanes;
    previous_ = start;
  }

  // How long the compute lane of a rank has worked in the step that it ends.
  void computed(std::int64_t step, std::chrono::nanoseconds busy) {
    const std::lock_guard lock(mutex_);
    Pending& entry = pending_[static_cast<std::size_t>(step)];
    entry.busy += busy;
    ++entry.computing;
  }

  void lane_done(std::int64_t step, TimePoint end) {
    const std::lock_guard lock(mutex_);
    Pending& entry = pending_[static_cast<std::size_t>(step)];
    entry.end = std::max(entry.end, end);
    // No lane ends a step before the one ahead of it, so steps complete in order.
    if (++entry.lanes < lanes_ || (counts_ && !counts_(step))) return;
    complete(step, std::max(entry.end, previous_));
  }

  const std::vector<StepResult>& results() const { return results_; }
  const std::vector<ValidationResult>& validations() const { return validations_; }

 private:
  struct Pending {
    int lanes = 0;  // that ended it
    TimePoint end{};
    std::chrono::nanoseconds busy{0};
    int computing = 0;  // ranks that it is of
  };

  // Nothing that follows would mean anything. Of a skipped update the parameters are as before.
  void check_finite(std::int64_t step, const StepResult& result) const {
    if (result.skipped || (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)))
      return;
    throw Error(ExitCode::kCheckFailed,
                "step " + std::to_string(step + 1) + " of " +
                    std::to_string(services_->start().step + services_->steps().training_steps()) +
                    ": expected a finite loss and gradient norm, got " +
                    std::to_string(result.loss) + " and " + std::to_string(result.gradient_norm) +
                    "; try a lower learning rate, or look at the data");
  }

  void check_updates(std::int64_t step, const StepResult& result) {
    if (!result.skipped) {
      skipped_since_ = kNever;
      skipped_at_least_ = 0;
      return;
    }
    skipped_since_ = std::min(skipped_since_, step);
    if (result.loss_scale > kLeastLossScale || ++skipped_at_least_ < kMostSkipped) return;
    throw Error(ExitCode::kCheckFailed,
                "step " + std::to_string(step + 1) + ": every update since step " +
                    std::to_string(skipped_since_ + 1) +
                    " was skipped, for its gradients were not finite, the last " +
                    std::to_string(kMostSkipped) +
                    " with a loss scale that cannot be halved: the loss is " +
                    std::to_string(result.loss) +
                    "; go on from an earlier checkpoint with a lower learning rate, or look at the "
                    "data");
  }

  void complete(std::int64_t run_step, TimePoint end) {
    const StepPlace& place = services_->steps()[run_step];
    StepResult result = services_->report_of(run_step);
    result.wall = {std::chrono::duration<double>(end - previous_).count()};
    previous_ = end;
    if (place.validates()) return validate(place, result);
    check_finite(place.step, result);
    const Pending& entry = pending_[static_cast<std::size_t>(run_step)];
    if (entry.computing > 0) {
      const Seconds busy{std::chrono::duration<double>(entry.busy).count() / entry.computing};
      result.exposed = std::max(Seconds{0}, result.wall - busy);
    }
    results_.push_back(result);
    if (listener_) listener_(place.step, result);
    check_updates(place.step, result);
  }

  void validate(const StepPlace& place, const StepResult& result) {
    if (place.batch == 0) validation_ = {.step = place.step};
    const std::int64_t batches = services_->steps().batches();
    validation_.loss += result.loss / static_cast<double>(batches);
    validation_.wall += result.wall;
    if (place.batch + 1 < batches) return;
    if (!std::isfinite(validation_.loss))
      throw Error(ExitCode::kCheckFailed, "validation after step " + std::to_string(place.step) +
                                              ": expected a finite loss, got " +
                                              std::to_string(validation_.loss));
    validations_.push_back(validation_);
    if (validated_) validated_(validation_);
  }

  std::mutex mutex_;
  const RunServices* services_;
  Listener listener_;
  ValidationListener validated_;
  std::function<bool(std::int64_t step)> counts_;
  int lanes_ = 0;
  TimePoint previous_;
  std::vector<Pending> pending_;  // by step of the run
  std::vector<StepResult> results_;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::int64_t skipped_since_ = kNever;  // the first step of those in a row
  int skipped_at_least_ = 0;             // of them, with the least loss scale
  ValidationResult validation_;          // under way
  std::vector<ValidationResult> validations_;
};

}  // namespace zplan::exec
