// The kernels that connect a step with the world outside the slabs: load_batch, load_pixels,
// step_scalars and report. Their operands are in memory the host can reach, so every backend uses
// these.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "exec/backend.h"
#include "exec/data_source.h"
#include "exec/schedule/step_result.h"
#include "exec/schedule/step_sequence.h"
#include "planner/program/train_config.h"

namespace zplan::exec {

// Data of the steps that train and of those that validate; the latter has none where none do.
struct StepData {
  const DataSource* training = nullptr;
  const DataSource* validation = nullptr;
};

// What host kernels reach. One rank writes the reports, so they need no lock.
class RunServices {
 public:
  // `sequence`: tokens of a sample, without the last target.
  RunServices(const StepData& data, std::int64_t sequence, const TrainConfig& train,
              std::int32_t reporting_rank, StepSequence steps)
      : data_(data),
        sequence_(sequence),
        train_(&train),
        reporting_rank_(reporting_rank),
        steps_(std::move(steps)),
        reports_(static_cast<std::size_t>(steps_.size())) {}

  std::int64_t sequence() const { return sequence_; }
  const TrainConfig& train() const { return *train_; }
  const StepSequence& steps() const { return steps_; }
  const StartPoint& start() const { return steps_.start(); }
  bool validates(std::int64_t run_step) const { return steps_[run_step].validates(); }
  const DataSource& data(std::int64_t run_step) const {
    return validates(run_step) ? *data_.validation : *data_.training;
  }
  // Whether the report of this rank counts.
  bool reports(const KernelCall& call) const { return call.rank == reporting_rank_; }
  StepResult& report_of(std::int64_t run_step) {
    return reports_[static_cast<std::size_t>(run_step)];
  }
  const StepResult& report_of(std::int64_t run_step) const {
    return reports_[static_cast<std::size_t>(run_step)];
  }

 private:
  StepData data_;
  std::int64_t sequence_;
  const TrainConfig* train_;
  std::int32_t reporting_rank_;
  StepSequence steps_;
  std::vector<StepResult> reports_;  // by step of the run
};

// tokens[i] of micro-batch m = sample step * global_batch + m * attr 0 + attr 2 + i, from its token
// attr 3 on; steps and samples as the run's start counts them. Data that validates begins with
// sample 0 each time.
void load_batch(const KernelCall& call);

// [Micikevicius18 sec 3.2] A scale below 1 would only lose gradients. A job that does not scale its
// loss has this one.
inline constexpr double kLeastLossScale = 1;

// Patches [T, c] of micro-batch m, attr 3 rows of each of the same samples: noise, by the seed.
void load_pixels(const KernelCall& call);

// Fills the scalars of a step. Skipped updates advance neither the bias corrections nor the
// learning rate; delayed ones are one step behind, and the first step updates nothing. The loss
// scale is halved after a step whose gradients were not finite, and doubled after so many good ones
// in a row [Micikevicius18 sec 3.2].
void step_scalars(const KernelCall& call);

void report(const KernelCall& call);

}  // namespace zplan::exec
