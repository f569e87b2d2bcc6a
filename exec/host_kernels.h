// The three kernels that connect a step with the world outside the slabs: load_batch, step_scalars
// and report. Their operands are in memory the host can reach, so every backend uses these.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/backend.h"
#include "exec/data_source.h"
#include "exec/schedule/step_result.h"
#include "planner/program/train_config.h"

namespace zplan::exec {

// Where in a training the run begins.
struct StartPoint {
  std::int64_t step = 0;    // its first
  std::int64_t sample = 0;  // the first of that step
  // Whether the first step has what one before it hands to it, if anything does.
  bool goes_on = true;
};

// What host kernels reach. One rank writes the reports, so they need no lock.
class RunServices {
 public:
  // `sequence`: tokens of a sample, without the last target. `steps` of this run, from start.step
  // on, which is how steps are counted here.
  RunServices(const DataSource& data, std::int64_t sequence, const TrainConfig& train,
              std::int32_t reporting_rank, std::int64_t steps, const StartPoint& start = {})
      : data_(&data),
        sequence_(sequence),
        train_(&train),
        reporting_rank_(reporting_rank),
        start_(start),
        reports_(static_cast<std::size_t>(steps)) {}

  const DataSource& data() const { return *data_; }
  std::int64_t sequence() const { return sequence_; }
  const TrainConfig& train() const { return *train_; }
  const StartPoint& start() const { return start_; }
  // Whether the report of this rank counts.
  bool reports(const KernelCall& call) const { return call.rank == reporting_rank_; }
  StepResult& report_of(std::int64_t step) {
    return reports_[static_cast<std::size_t>(step - start_.step)];
  }
  const StepResult& report_of(std::int64_t step) const {
    return reports_[static_cast<std::size_t>(step - start_.step)];
  }

 private:
  const DataSource* data_;
  std::int64_t sequence_;
  const TrainConfig* train_;
  std::int32_t reporting_rank_;
  StartPoint start_;
  std::vector<StepResult> reports_;  // by step
};

// tokens[i] of micro-batch m = sample step * global_batch + m * attr 0 + attr 2 + i, from its token
// attr 3 on; steps and samples as the run's start counts them.
void load_batch(const KernelCall& call);

// Fills the scalars of a step. Skipped updates advance neither the bias corrections nor the
// learning rate; delayed ones are one step behind, and the first step updates nothing. The loss
// scale is halved after a step whose gradients were not finite, and doubled after so many good ones
// in a row [Micikevicius18 sec 3.2].
void step_scalars(const KernelCall& call);

void report(const KernelCall& call);

}  // namespace zplan::exec
