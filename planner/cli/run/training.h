// Runs of plans on this machine for `zplan run`: which plan is run in which number format, its
// one-rank reference, and the comparison of the two.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/run.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/prediction.h"
#include "planner/program/job/model_files.h"

namespace zplan {

// The plan of the command in the format it asks for. Throws Error for kernel sets that do not run
// on the backend it asks for, naming a plan that does.
ReadPlan runnable_plan(const RunCommand& command);

// What the plan's kernel set runs on. Throws Error(kDevice) saying in a line what is missing.
std::shared_ptr<exec::Device> open_device(const Plan& plan, int local_rank);

// The same batch and precision on one rank: nothing sharded, moved or recomputed.
Plan reference_plan(const Plan& plan);

// One quantity of a run against the same of its reference.
struct CheckRow {
  std::string quantity;   // "losses"
  double difference = 0;  // the greatest
  double tolerance = 0;
  std::string unit;         // "relative", "of the tensor's norm"
  std::string where;        // of the greatest difference; empty when there is none
  bool only_zeros = false;  // nothing else was there to compare
  bool agrees() const { return !only_zeros && difference <= tolerance; }  // not for NaN
};

struct FinishedRun {
  const Job* job;
  const ModelConfig* model;
  const exec::RunResult* result;
  exec::Rendezvous* rendezvous = nullptr;  // where each rank is a process, and so has a part of it
};

// Whether gradients of the first step can be compared: first moments hold them as they are.
bool has_first_gradients(const Job& reference);
// Of processes that do not compare: their parts of each tensor, to the one that does.
void send_tensors(const FinishedRun& run, exec::State state);

// With auxiliary losses and dropped choices of experts, where there are some.
std::vector<CheckRow> compare_losses(const FinishedRun& run, const FinishedRun& reference);
// Of the first step, as the first moment keeps them: both runs must end with the first update. The
// part of the QKV bias that belongs to the keys has no gradient but rounding: a row of its own, for
// models that have one. Nothing where the optimizer keeps no first moment, or keeps it in 8 bits.
std::vector<CheckRow> compare_gradients(const FinishedRun& run, const FinishedRun& reference);

// What a training begins with: weights, or, where they are null, values drawn from the seed.
struct TrainingStart {
  std::uint64_t seed = 0;
  const ModelFiles* weights = nullptr;
};
// What the optimizer keeps of them, against the distance from where training started. Biases of
// keys are left out: nothing depends on them.
CheckRow compare_parameters(const FinishedRun& run, const FinishedRun& reference,
                            const TrainingStart& start);

}  // namespace zplan
