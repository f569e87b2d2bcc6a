#include "sim/simulate.h"

#include "planner/core/error.h"
#include "sim/engine.h"
#include "sim/report.h"

namespace zplan::sim {

SimResult simulate(const CostModel& model, const SimOptions& options) {
  ZPLAN_ASSERT(1 <= options.min_steps && options.min_steps <= options.max_steps);
  Engine engine(model, options);
  for (int step = 1; step <= options.max_steps; ++step) {
    engine.run_step();
    if (step >= options.min_steps && is_steady(engine.marks())) break;
  }
  return make_result(engine, options);
}

SimResult simulate(const Job& job, const Cluster& cluster, const SimOptions& options) {
  return simulate(CostModel(job, cluster), options);
}

}  // namespace zplan::sim
