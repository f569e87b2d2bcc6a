// lower: Plan + model + kernel set -> Job. The only code that knows ZeRO, pipelines, recomputation
// and offload (law 1); everything after reads the Job. Durations and hardware never enter.
#pragma once

#include <cstdint>
#include <set>

#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/program/job/job.h"

namespace zplan {

class Decoder;

// The plan must be legal (illegal() is empty); throws Error(kBadInput) with its reason otherwise.
// The Job has data edges and no placement yet.
Job lower(const Plan& plan, const ModelConfig& model);
// The same without any edges: all that memory and the times of single operations depend on.
Job lower_unordered(const Plan& plan, const ModelConfig& model);
// The same of some stages; the programs of the others are empty.
Job lower_unordered(const Plan& plan, const ModelConfig& model,
                    const std::set<std::int32_t>& stages);
// The same of a decoder made for a plan that is legal for it.
Job lower_unordered(const Plan& plan, const Decoder& decoder);

}  // namespace zplan
