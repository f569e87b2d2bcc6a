// Which plans have a Job. Each rule says what it would take.
#include <fmt/format.h>

#include <algorithm>

#include "planner/core/units.h"
#include "planner/plan/limits.h"
#include "planner/plan/plan.h"
#include "planner/plan/size_bounds.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

using Reason = std::optional<std::string>;

Reason outside(const char* what, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return std::nullopt;
  return fmt::format("{} {} is outside {}..{}", what, value, min, max);
}

Reason wrong_sizes(const Plan& p, std::int64_t layers) {
  const Parallel& shape = p.parallel;
  if (Reason why = outside("model layers", layers, 1, kMaxLayers)) return why;
  if (Reason why = outside("dp", shape.dp, 1, kMaxDp)) return why;
  if (Reason why = outside("pp", shape.pp, 1, kMaxStages)) return why;
  if (shape.pp > layers)
    return fmt::format("pp {} needs a layer per stage; the model has {} layers", shape.pp, layers);
  if (p.zero_stage < 0 || p.zero_stage > 3)
    return fmt::format("ZeRO stage {} does not exist (0..3)", p.zero_stage);
  if (Reason why = outside("prefetch depth", p.prefetch, 0, kMaxPrefetch)) return why;
  if (!(p.slack >= 0 && p.slack <= 1)) return fmt::format("slack {} is outside 0..1", p.slack);
  return std::nullopt;
}

Reason wrong_batch(const Plan& p) {
  const Batch& b = p.batch;
  if (Reason why = outside("global batch", b.global_batch, 1, kMaxGlobalBatch)) return why;
  if (Reason why = outside("micro-batch", b.micro_batch, 1, kMaxGlobalBatch)) return why;
  if (Reason why = outside("sequence", b.sequence, 1, kMaxSequence)) return why;
  if (b.global_batch * b.sequence > kMaxTokensPerStep)
    return fmt::format("global batch {} x sequence {} exceeds {} tokens per step; {} fits",
                       b.global_batch, b.sequence, kMaxTokensPerStep,
                       kMaxTokensPerStep / b.sequence);
  const std::int64_t step = b.micro_batch * p.parallel.dp;
  if (b.global_batch % step != 0)
    return fmt::format(
        "global batch {} is no multiple of micro-batch {} x dp {}; the nearest that is: {}",
        b.global_batch, b.micro_batch, p.parallel.dp, nearest_multiple(b.global_batch, step));
  const std::int64_t most = std::min(kMaxMicroSteps, kMaxStageMicroSteps / p.parallel.pp);
  if (p.micro_steps() > most)
    return fmt::format(
        "global batch {} in micro-batches of {} x dp {} takes {} micro-steps; up to {} are possible"
        " with pp {}",
        b.global_batch, b.micro_batch, p.parallel.dp, p.micro_steps(), most, p.parallel.pp);
  return std::nullopt;
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

// Master copy and moments: what the AdamW kernel of the set reads and writes.
Reason wrong_state(const KernelSet& kernels, const char* what, DType dtype) {
  if (dtype == kernels.compute || (!kernels.runs_on_cpu && dtype == DType::kF32))
    return std::nullopt;
  return fmt::format("kernel set {} keeps {} in {}{}, not {}", kernels.id, what,
                     name(kernels.compute), kernels.runs_on_cpu ? "" : " or f32", name(dtype));
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
  if (Reason why = wrong_state(kernels, "the master copy", r.master)) return why;
  if (Reason why = wrong_state(kernels, "moments", r.moments)) return why;
  if (kernels.loss_scaling && !p.loss_scaling)
    return fmt::format("kernel set {} needs loss scaling", p.kernel_set);
  if (p.loss_scaling && !kernels.loss_scaling)
    return fmt::format("kernel set {} has no use for loss scaling", p.kernel_set);
  return std::nullopt;
}

Reason beyond_counting(const Plan& p, const ModelShape& model) {
  if (const double flops = flops_bound(p, model); flops > kMaxFlopsPerOp)
    return fmt::format(
        "micro-batch {} x sequence {} makes operations of up to {:.1e} flop; up to {:.1e} can be "
        "counted",
        p.batch.micro_batch, p.batch.sequence, flops, kMaxFlopsPerOp);
  if (const double bytes = total_bytes_bound(p, model); bytes > kMaxTotalBytes)
    return fmt::format("dp {} x pp {} ranks hold up to {:.1e} bytes; up to {:.1e} can be counted",
                       p.parallel.dp, p.parallel.pp, bytes, kMaxTotalBytes);
  return std::nullopt;
}

}  // namespace

Reason illegal(const Plan& plan, std::int64_t layers) {
  if (Reason why = wrong_sizes(plan, layers)) return why;
  if (Reason why = wrong_batch(plan)) return why;
  if (Reason why = wrong_placement(plan)) return why;
  return wrong_precision(plan);
}

Reason illegal(const Plan& plan, const ModelShape& model) {
  if (Reason why = illegal(plan, model.layers)) return why;
  return beyond_counting(plan, model);
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
