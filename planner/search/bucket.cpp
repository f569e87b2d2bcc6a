#include "planner/search/bucket.h"

#include <algorithm>
#include <cstdint>

#include "models/model_formulas.h"
#include "planner/program/job/limits.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

// Of what goes over the wire.
DType reduced_type(const Plan& plan) {
  return plan.precision.grad_cast == GradientCast::kAfterReduction
             ? find_kernel_set(plan.kernel_set).compute
             : plan.precision.grad;
}

}  // namespace

Gather unit_of_bucket(Bytes bucket, const Plan& plan, const ModelConfig& model) {
  const std::int64_t ranks = std::int64_t{plan.parallel.tp} * plan.parallel.ep;
  const std::int64_t elements = layer_parameter_count(model) / ranks;
  const std::int64_t fitting = bucket.value / size_of(reduced_type(plan)).value / elements;
  if (fitting < 1) return Gather::kOperator;
  const ModelShape shape = shape_of(model);
  Plan wider = plan;
  for (std::int64_t layers = std::min<std::int64_t>(fitting, kMaxUnitLayers); layers > 1;
       --layers) {
    wider.gather = Gather::of_layers(static_cast<std::int32_t>(layers));
    if (!illegal(wider, shape)) return wider.gather;
  }
  return Gather::kLayer;
}

}  // namespace zplan
