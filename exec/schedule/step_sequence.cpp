#include "exec/schedule/step_sequence.h"

#include <algorithm>

namespace zplan::exec {

StepSequence::StepSequence(std::int64_t steps, const StartPoint& start,
                           const ValidationTimes& times)
    : start_(start), steps_(steps), batches_(times.batches) {
  const auto validate = [&](std::int64_t trained) {
    for (std::int64_t batch = 0; batch < batches_; ++batch)
      places_.push_back({start.step + trained, trained, batch});
  };
  const bool is_open = start.step > 0 && !start.validated;
  for (std::int64_t trained = 0; trained < steps; ++trained) {
    const bool is_due = times.every > 0 && (start.step + trained) % times.every == 0;
    if (is_due && (trained > 0 || is_open)) validate(trained);
    places_.push_back({start.step + trained, trained});
  }
  validate(steps);
}

double StepSequence::trained(double run_steps) const {
  const auto whole = std::clamp<std::int64_t>(static_cast<std::int64_t>(run_steps), 0, size());
  const bool is_training = whole < size() && !(*this)[whole].validates();
  return static_cast<double>(trained_before(whole)) +
         (is_training ? run_steps - static_cast<double>(whole) : 0);
}

}  // namespace zplan::exec
