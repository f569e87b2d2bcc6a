#include "planner/cli/foreign/trial.h"

#include <fmt/format.h>

#include "planner/cli/predict/prediction.h"
#include "sim/simulate.h"

namespace zplan {

Trial try_plan(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
               bool even_if_full) {
  Trial trial;
  if (auto why = illegal(plan, shape_of(model))) {
    trial.illegal = std::move(*why);
    return trial;
  }
  if (const std::int64_t ranks = plan.parallel.ranks(); ranks > cluster.devices()) {
    trial.illegal = fmt::format("{} ranks on {} GPUs", ranks, cluster.devices());
    return trial;
  }
  const PlannedJob planned = build_job(plan, model);
  const MemoryPrediction memory = predict_memory(planned, cluster);
  trial.fits = !memory.infeasible;
  trial.gpu = memory.stack.allocated.central;
  if (trial.fits || even_if_full) trial.step = sim::simulate(planned.job, cluster, {}).period;
  return trial;
}

}  // namespace zplan
