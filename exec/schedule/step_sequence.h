// The steps of a run in order: those that train, and batches of other data between them, of which
// only the loss is computed (planner/program/instances/validation.h). A run counts both, and calls
// that its own steps.
#pragma once

#include <cstdint>
#include <vector>

namespace zplan::exec {

// Where in a training the run begins.
struct StartPoint {
  std::int64_t step = 0;    // its first
  std::int64_t sample = 0;  // the first of that step
  // Whether the first step has what one before it hands to it, if anything does.
  bool goes_on = true;
  // Whether a validation that is due after the step before it is done.
  bool validated = true;
};

// When a training is validated, and on how much.
struct ValidationTimes {
  std::int64_t every = 0;    // steps of the training; 0: after the last alone
  std::int64_t batches = 0;  // global batches at a time; 0: never
};

struct StepPlace {
  std::int64_t step = 0;     // of the training; where the run validates, the one that comes next
  std::int64_t trained = 0;  // steps of this run before it that train
  std::int64_t batch = -1;   // of the data that validates; negative: the step trains

  bool validates() const { return batch >= 0; }
};

class StepSequence {
 public:
  // Of so many steps that train. Without any, the states that the run begins with are validated;
  // else where the run before it was to do so and did not.
  StepSequence(std::int64_t steps, const StartPoint& start = {}, const ValidationTimes& times = {});

  const StartPoint& start() const { return start_; }
  std::int64_t training_steps() const { return steps_; }
  std::int64_t size() const { return std::ssize(places_); }
  std::int64_t batches() const { return batches_; }  // of a validation
  std::int64_t validations() const { return batches_ > 0 ? (size() - steps_) / batches_ : 0; }
  const StepPlace& operator[](std::int64_t run_step) const {
    return places_[static_cast<std::size_t>(run_step)];
  }
  // Whether a step of the training ends where this one begins, which may be the end of the run.
  bool follows_training(std::int64_t run_step) const {
    return run_step > 0 && !(*this)[run_step - 1].validates();
  }
  // Up to the begin of a step of the run, or to its end.
  std::int64_t trained_before(std::int64_t run_step) const {
    return run_step < size() ? (*this)[run_step].trained : steps_;
  }
  // Steps that train of a part of the run, which may end within one: "2.25".
  double trained(double run_steps) const;

 private:
  StartPoint start_;
  std::int64_t steps_, batches_;
  std::vector<StepPlace> places_;
};

}  // namespace zplan::exec
