#include "planner/cli/bandwidth/bandwidth.h"

#include <utility>

namespace zplan {
namespace {

// Forward and backward of one micro-batch load the parameters once per pass, whoever has its
// tokens; the update comes after all micro-steps.
InfinityIntensities over_a_step(InfinityIntensities of_micro_step, std::int64_t micro_steps) {
  of_micro_step.optimizer *= static_cast<double>(micro_steps);
  return of_micro_step;
}

FlopsPerSecond compute_rate(const std::vector<OpRoofline>& lines) {
  double flops = 0;
  Seconds time{0};
  for (const OpRoofline& line : lines) {
    if (multiplies(line.kind)) flops += line.flops;
    time += line.time;
  }
  return {time.value > 0 ? flops / time.value : 0};
}

}  // namespace

Bandwidth find_bandwidth(ChosenPlan chosen, int threads) {
  const PlannedJob& planned = chosen.planned;
  const Plan& plan = planned.plan;
  const Cluster& cluster = chosen.cluster;
  Bandwidth found;
  found.batch = {static_cast<double>(plan.batch.micro_batch),
                 static_cast<double>(plan.rank_sequence()),
                 static_cast<double>(plan.checkpoint_layers)};
  const auto hidden = static_cast<double>(planned.model.hidden);
  found.printed = over_a_step(printed_intensities(hidden, found.batch), plan.micro_steps());
  found.layers = over_a_step(layer_intensities(planned.model, found.batch), plan.micro_steps());
  found.sim = chosen.time ? std::move(chosen.time->sim) : sim::simulate(planned.job, cluster);
  const CostModel model(planned.job, cluster);
  const int stage = found.sim.split.stage;
  found.traffic = tier_traffic(model);
  found.groups = group_traffic(model, stage);
  found.loads = parameter_loads(planned.job, stage);
  found.stores = gradient_stores(planned.job, stage);
  found.rooflines = op_rooflines(model, stage);
  found.compute = compute_rate(found.rooflines);
  found.sweeps = sweep_links(planned.job, cluster, found.traffic, found.sim, threads);
  found.chosen = std::move(chosen);
  return found;
}

}  // namespace zplan
