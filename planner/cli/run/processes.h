// `zplan run` as one of several processes that a launcher started, one rank each: who it is, and
// what it shares with the others.
#pragma once

#include <memory>

#include "exec/comm/rendezvous.h"
#include "exec/data_source.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/predict/prediction.h"
#include "planner/program/train_config.h"

namespace zplan {

// What a run is trained on.
struct TrainingData {
  const exec::DataSource& data;
  const exec::DataSource* validation;  // null: it is not validated
  const TrainConfig& values;
};

// Meets the others; null when this process is the only one. Throws Error when they do not come or
// run something else.
std::shared_ptr<exec::Rendezvous> meet_processes(const RunCommand& command,
                                                 const PlannedJob& planned,
                                                 const TrainingData& trained);

// Options that need all ranks in one process. Throws Error(kBadInput).
void check_process_options(const RunCommand& command);

// The index of this process among those of its machine.
int local_rank();

}  // namespace zplan
