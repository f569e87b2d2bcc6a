#include "planner/cli/frame/departures.h"

#include <fmt/format.h>

#include "planner/plan/plan_schedule.h"
#include "planner/program/job/names.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

void add_of_optimizer(const Plan& plan, std::vector<std::string>& all) {
  const UpdateRule& rule = plan.optimizer.row().matrices;
  if (rule.in_blocks)
    all.push_back(
        fmt::format("moments of the layers' matrices rounded to 8 bits, in blocks of {} of the "
                    "whole tensor",
                    plan.optimizer.block));
  if (rule.orthogonal)
    all.emplace_back(
        "matrices of layers updated orthogonally as they are stored (queries, keys and values are "
        "one), all else by AdamW");
  if (rule.factored)
    all.emplace_back(
        "second moments made of means by row and column of matrices as they are stored");
}

void add_of_rounding(const Plan& plan, std::vector<std::string>& all) {
  const KernelSet& kernels = find_kernel_set(plan.kernel_set);
  const PrecisionRecipe& r = plan.precision;
  if (kernels.layer_products != LayerProducts::kAsStored)
    all.push_back(fmt::format(
        "operands of the layers' products rounded to fp8{}",
        kernels.layer_products == LayerProducts::kFp8 ? ", with a scale for what a rank has of each"
        : kernels.rounds_whole ? ", with a scale for each of a replica's micro-batch"
                               : ", in blocks of the whole matrices"));
  if (plan.train.has_codes())
    all.push_back(
        fmt::format("frozen matrices of layers rounded to {}, in blocks of {} with a scale{}",
                    plan.train.is_fp4() ? "4-bit floats" : "4-bit NormalFloat", kCodeBlock,
                    plan.train.has_scale_codes() ? " of 8 bits" : ""));
  const bool has_16_bits = size_of(kernels.compute) < size_of(DType::kF32);
  if (has_16_bits && r.grad_cast == GradientCast::kAfterReduction)
    all.push_back(fmt::format("gradients reduced in {}", name(kernels.compute)));
  if (has_16_bits && r.master == kernels.compute)
    all.push_back(fmt::format("updates rounded to {} stochastically", name(r.master)));
}

}  // namespace

std::vector<std::string> departures(const Plan& plan) {
  std::vector<std::string> all;
  if (updates_each_micro_batch(plan))
    all.push_back(fmt::format(
        "an update after each micro-batch; piece i of {0} trains on parameters {0} - i updates old",
        plan.pieces()));
  else if (plan.updates_late())
    all.emplace_back("each step trains on parameters without the gradients of the step before it");
  if (plan.capacity_factor > 0)
    all.emplace_back("choices of experts beyond their capacity in a sequence are dropped");
  add_of_optimizer(plan, all);
  add_of_rounding(plan, all);
  return all;
}

}  // namespace zplan
