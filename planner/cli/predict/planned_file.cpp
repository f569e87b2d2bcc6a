#include "planner/cli/predict/planned_file.h"

#include <fmt/format.h>

#include "models/model_template.h"
#include "planner/cli/frame/output.h"

namespace zplan {

PlannedJob planned_job(const ReadPlan& read) {
  PlannedJob planned = build_job(read.plan);
  const std::optional<PlanSeal>& seal = read.seal;
  const bool is_same = seal && seal->decisions == decisions_hash(read.plan) &&
                       seal->model.hash == model_hash(planned.model);
  if (is_same && seal->fingerprint != planned.fingerprint)
    complain(fmt::format(
        "{}: this zplan makes another Job of the plan than the one that wrote it: fingerprint {}, "
        "not {}",
        read.path, planned.fingerprint, seal->fingerprint));
  return planned;
}

}  // namespace zplan
