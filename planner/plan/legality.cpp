// Which plans have a Job. Each rule says what it would take.
#include <fmt/format.h>

#include <algorithm>

#include "planner/plan/plan.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

using Reason = std::optional<std::string>;

constexpr std::int32_t kMaxPrefetch = 64;

Reason wrong_sizes(const Plan& p, std::int64_t layers) {
  if (p.parallel.dp < 1 || p.parallel.pp < 1)
    return fmt::format("dp {} and pp {} must both be at least 1", p.parallel.dp, p.parallel.pp);
  if (p.parallel.pp > layers)
    return fmt::format("pp {} needs a layer per stage; the model has {} layers", p.parallel.pp,
                       layers);
  if (p.zero_stage < 0 || p.zero_stage > 3)
    return fmt::format("ZeRO stage {} does not exist (0..3)", p.zero_stage);
  if (p.prefetch < 0 || p.prefetch > kMaxPrefetch)
    return fmt::format("prefetch depth {} is outside 0..{}", p.prefetch, kMaxPrefetch);
  if (!(p.slack >= 0 && p.slack <= 1)) return fmt::format("slack {} is outside 0..1", p.slack);
  return std::nullopt;
}

Reason wrong_batch(const Plan& p) {
  const Batch& b = p.batch;
  if (b.global_batch < 1 || b.micro_batch < 1 || b.sequence < 1)
    return "global batch, micro-batch and sequence must be at least 1";
  const std::int64_t step = b.micro_batch * p.parallel.dp;
  if (b.global_batch % step == 0) return std::nullopt;
  const std::int64_t nearest = std::max<std::int64_t>(1, (b.global_batch + step / 2) / step) * step;
  return fmt::format(
      "global batch {} is no multiple of micro-batch {} x dp {}; the nearest that is: {}",
      b.global_batch, b.micro_batch, p.parallel.dp, nearest);
}

Reason wrong_placement(const Plan& p) {
  const StatePlacement& at = p.placement;
  for (Tier tier : {at.params, at.grads, at.optimizer, at.activations})
    if (tier == Tier::kNvme) return "states on NVMe are not supported yet; use gpu or cpu";
  if (at.params == Tier::kCpu && p.zero_stage != 3)
    return fmt::format("parameters on the CPU need ZeRO stage 3, not {}", p.zero_stage);
  if (at.grads == Tier::kCpu && p.zero_stage < 2)
    return fmt::format("gradients on the CPU need ZeRO stage 2 or 3, not {}", p.zero_stage);
  if (at.grads == Tier::kCpu && at.optimizer != Tier::kCpu)
    return "gradients on the CPU need the optimizer there too";
  if (at.activations == Tier::kCpu && p.recompute != Recompute::kFull)
    return "activations on the CPU are checkpoints: they need recompute full";
  return std::nullopt;
}

Reason wrong_precision(const Plan& p) {
  const KernelSet& kernels = find_kernel_set(p.kernel_set);
  const PrecisionRecipe& r = p.precision;
  if (r.param != kernels.compute || r.grad != kernels.compute)
    return fmt::format("kernel set {} computes in {}; parameters {} and gradients {} do not match",
                       p.kernel_set, name(kernels.compute), name(r.param), name(r.grad));
  if (!r.separate_master && r.master != r.param)
    return fmt::format("a master copy in {} of parameters in {} must be separate", name(r.master),
                       name(r.param));
  if (kernels.loss_scaling && !p.loss_scaling)
    return fmt::format("kernel set {} needs loss scaling", p.kernel_set);
  if (p.loss_scaling && !kernels.loss_scaling)
    return fmt::format("kernel set {} has no use for loss scaling", p.kernel_set);
  return std::nullopt;
}

}  // namespace

Reason illegal(const Plan& plan, std::int64_t layers) {
  if (Reason why = wrong_sizes(plan, layers)) return why;
  if (Reason why = wrong_batch(plan)) return why;
  if (Reason why = wrong_placement(plan)) return why;
  return wrong_precision(plan);
}

PrecisionRecipe default_recipe(std::string_view kernel_set) {
  const DType compute = find_kernel_set(kernel_set).compute;
  const bool mixed = compute == DType::kF16 || compute == DType::kBf16;
  const DType state = mixed ? DType::kF32 : compute;
  return {.param = compute,
          .grad = compute,
          .master = state,
          .moments = state,
          .separate_master = mixed};
}

}  // namespace zplan
