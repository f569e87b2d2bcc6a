// A plan tried out: whether it is one, what it holds and how long a step takes, beside another.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"

namespace zplan {

struct Trial {
  std::string illegal;  // why there is no such plan; empty: there is
  bool fits = false;
  Bytes gpu{0};                 // of the GPU that needs most, without what is reserved
  std::optional<Seconds> step;  // where it fits, or capacity is ignored
};

// Why there is no such plan of the model on the cluster; nothing: there is.
std::optional<std::string> no_plan(const Plan& plan, const ModelConfig& model,
                                   const Cluster& cluster);

// `even_if_full`: simulates what does not fit, too.
Trial try_plan(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
               bool even_if_full);

}  // namespace zplan
