// The homes of kept tensors that the planner chooses: each of each layer is kept on the GPU,
// recomputed, on the CPU or on NVMe, and the inputs of layers are in one of the three tiers.
//
// question.h says what a home takes, assignment.h which assignment is best by that. Layers of a
// stage that share a home lie side by side, so that what is chosen are runs of layers
// (RecomputeRun): a tensor has at most two homes in a stage, in steps of a sixteenth of its layers,
// the farther one first, where the time until backward is longest. Stages come apart, each with
// the memory of its own micro-batches in flight. What is found is an estimate: whether it fits and
// how long it takes is asked of Jobs, as of any plan, and where it does not fit the room is cut by
// what it was over and the question asked again.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/cost/shared_wires.h"
#include "planner/plan/pins.h"
#include "planner/search/homes/assignment.h"
#include "planner/search/homes/question.h"
#include "planner/search/search.h"

namespace zplan {

// What may be chosen among.
struct HomesAllowed {
  bool kept = true, recomputed = true, on_cpu = true, on_nvme = true;
  std::vector<Tier> inputs{Tier::kGpu, Tier::kCpu, Tier::kNvme};
};

struct ChosenHomes {
  Plan plan;
  double seconds = 0;  // of the phases in which homes count, as the question estimates them
  double bound = 0;    // no choice takes less by that estimate
};

// `less`: bytes of each GPU that are not to be used. Nothing: nothing fits, by the estimate.
std::optional<ChosenHomes> choose_homes(const HomesQuestion& question, const HomesAllowed& allowed,
                                        const ModelShape& model, Bytes less = {});

// The same, by what fits: as `fit` says, of an Evaluator.
std::optional<ChosenHomes> choose_fitting_homes(const HomesQuestion& question,
                                                const HomesAllowed& allowed,
                                                const ModelShape& model,
                                                const std::function<Fit(const Plan&)>& fit,
                                                Bytes less = {});

// Plans like this one, worth to be simulated: the best homes there are, those without drives, and
// those of recomputation alone. Inputs of layers stay where pins say. `wires`: of the cluster
// (cost_model.h).
std::vector<Plan> promising_homes(const Plan& plan, const ModelConfig& model,
                                  const Cluster& cluster, const Pins& pins,
                                  const std::function<Fit(const Plan&)>& fit,
                                  SharedWires* wires = nullptr);

}  // namespace zplan
