#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/cost/step_totals.h"
#include "sim/engine.h"
#include "sim/flow_network.h"
#include "sim/report.h"

namespace zplan::sim {

namespace {

// No order of the operations takes longer than one after the other; that must fit the clock.
void check_horizon(const CostModel& model, int steps) {
  double seconds = 0;
  for (int stage = 0; stage < static_cast<int>(model.job().classes.size()); ++stage) {
    const Program& program = model.job().classes[static_cast<std::size_t>(stage)].program;
    const std::vector<std::int64_t> instances = instances_per_step(program);
    for (std::size_t i = 0; i < instances.size(); ++i)
      seconds += to_seconds(model.costs(stage)[i].alone).value * static_cast<double>(instances[i]);
  }
  if (seconds * steps < to_seconds(kHorizon).value) return;
  throw_bad_input(fmt::format("{} steps of up to {} each are more than the simulator can count",
                              steps, format_seconds({seconds})));
}

}  // namespace

SimResult simulate(const CostModel& model, const SimOptions& options) {
  ZPLAN_ASSERT(1 <= options.min_steps && options.min_steps <= options.max_steps);
  check_horizon(model, options.max_steps);
  const double tolerance = std::max(options.tolerance, kSteadyTolerance);
  Engine engine(model, options);
  for (int step = 1; step <= options.max_steps; ++step) {
    engine.run_step();
    if (step >= options.min_steps && is_steady(engine.marks(), tolerance)) break;
  }
  return make_result(engine, options);
}

SimResult simulate(const Job& job, const Cluster& cluster, const SimOptions& options) {
  return simulate(CostModel(job, cluster), options);
}

}  // namespace zplan::sim
