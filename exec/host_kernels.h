// The three kernels that connect a step with the world outside the slabs: load_batch, step_scalars
// and report. Their operands are in memory the host can reach, so every backend uses these.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/backend.h"
#include "exec/data_source.h"
#include "planner/program/train_config.h"

namespace zplan::exec {

struct StepReport {
  double loss = 0;           // mean over the tokens of the global batch
  double gradient_norm = 0;  // before clipping
};

// What host kernels reach. One rank writes the reports, so they need no lock.
class RunServices {
 public:
  RunServices(const DataSource& data, const TrainConfig& train, std::int32_t last_stage, int steps)
      : data_(&data),
        train_(&train),
        last_stage_(last_stage),
        reports_(static_cast<std::size_t>(steps)) {}

  const DataSource& data() const { return *data_; }
  const TrainConfig& train() const { return *train_; }
  // The rank whose report counts: last stage, dp index 0.
  bool reports(std::int32_t stage, std::int32_t dp_index) const {
    return stage == last_stage_ && dp_index == 0;
  }
  StepReport& report_of(std::int64_t step) { return reports_[static_cast<std::size_t>(step)]; }

 private:
  const DataSource* data_;
  const TrainConfig* train_;
  std::int32_t last_stage_;
  std::vector<StepReport> reports_;  // by step
};

// tokens[i] of micro-batch m and replica r = sample step * global_batch + (m dp + r) b + i.
void load_batch(const KernelCall& call);
void step_scalars(const KernelCall& call);
void report(const KernelCall& call);

}  // namespace zplan::exec
