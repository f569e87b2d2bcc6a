#include "planner/cli/foreign/trial.h"

#include <fmt/format.h>

#include <utility>

#include "planner/cli/predict/prediction.h"
#include "sim/simulate.h"

namespace zplan {

std::optional<std::string> no_plan(const Plan& plan, const ModelConfig& model,
                                   const Cluster& cluster) {
  if (auto why = illegal(plan, shape_of(model))) return why;
  const std::int64_t ranks = plan.parallel.ranks();
  if (ranks <= cluster.devices()) return std::nullopt;
  return fmt::format("it needs {} ranks, {} has {} GPUs", ranks, cluster.name, cluster.devices());
}

Trial try_plan(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
               bool even_if_full) {
  Trial trial;
  if (auto why = no_plan(plan, model, cluster)) {
    trial.illegal = std::move(*why);
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
