#include "planner/validate/run_homes.h"

#include <utility>

#include "planner/search/homes/homes.h"
#include "planner/validate/run_words.h"

namespace zplan {

bool chooses_homes(const RunRecord& run) { return run.recompute == kAutomatic; }

Plan with_chosen_homes(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  const Tier away = plan.placement.activations;
  HomesAllowed allowed{
      .on_cpu = away != Tier::kGpu, .on_nvme = away == Tier::kNvme, .inputs = {away}};
  if (away == Tier::kNvme) allowed.inputs.push_back(Tier::kCpu);  // on the way there
  const Evaluator evaluator = make_evaluator(model, cluster);
  auto chosen = choose_fitting_homes(ask_homes(plan, model, cluster), allowed, shape_of(model),
                                     evaluator.fit);
  if (!chosen) return plan;
  const bool faster = evaluator.simulate_exactly(chosen->plan) < evaluator.simulate_exactly(plan);
  return faster ? std::move(chosen->plan) : plan;
}

}  // namespace zplan
