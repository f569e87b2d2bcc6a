#include <fmt/format.h>

#include "planner/foreign/frameworks/choose_kernels.h"
#include "planner/foreign/frameworks/deepspeed_parts.h"

namespace zplan {
namespace {

// What the Trainer is asked for: not in this file.
std::string_view usual_format(const Surroundings& around) {
  if (!around.compute) return around.device.supports("bf16") ? "bf16" : "fp16";
  return *around.compute == DType::kBf16 ? "bf16" : *around.compute == DType::kF16 ? "fp16" : "";
}

// Whether a format is enabled: as written, as the Trainer fills it in, or nothing.
bool is_on(const KeysToPlan& to, const std::string& format) {
  const std::string key = format + ".enabled";
  if (!to.config.is_auto(key)) return to.config.has(format) && to.config.flag(key);
  if (to.around.with_trainer) return usual_format(to.around) == format;
  to.config.add(Trouble::kNoEffect, key, "\"auto\" means false without Hugging Face's Trainer");
  return false;
}

// Without ZeRO bf16 gradients are added up in fp32, with it in the type of the parameters, unless
// grad_accum_dtype says otherwise; the CPU's optimizer keeps them in fp32.
void choose_recipe(const KeysToPlan& to, DType compute) {
  if (compute == DType::kF32) return;
  const ConfigReader& config = to.config;
  Plan& plan = to.plan;
  const bool is_lean = config.has("bf16") && config.flag("bf16.bf16_master_weights_and_grads") &&
                       config.flag("bf16.bf16_optimizer_states");
  const bool in_fp32 =
      config.has("data_types.grad_accum_dtype")
          ? config.word("data_types.grad_accum_dtype", {"fp32", "bf16", "fp16"}) == "fp32"
          : plan.zero_stage == 0 && compute == DType::kBf16;
  std::string recipe = in_fp32 ? "half-reduction" : "standard";
  if (in_fp32 && plan.zero_stage < 2) recipe = "fp32-gradients";
  if (plan.placement.optimizer != Tier::kGpu) recipe = "main-gradients";
  if (is_lean) recipe = "lean";
  if (const auto found = find_recipe(recipe, plan.kernel_set)) plan.precision = *found;
}

void check_formats(const KeysToPlan& to, bool bf16, bool fp16) {
  ConfigReader& config = to.config;
  if (bf16 && fp16) config.add(Trouble::kError, "fp16.enabled", "bf16 and fp16 exclude each other");
  const bool is_filled = config.is_auto("bf16.enabled") || config.is_auto("fp16.enabled");
  if (is_filled && to.around.with_trainer && !to.around.compute)
    config.add(Trouble::kAssumed, bf16 ? "bf16.enabled" : "fp16.enabled",
               fmt::format("the Trainer's arguments say {}", bf16   ? "bf16"
                                                             : fp16 ? "fp16"
                                                                    : "neither"));
  if (bf16 && !to.around.device.supports("bf16"))
    config.add(Trouble::kError, "bf16.enabled",
               fmt::format("{} has no bf16", to.around.device.name));
}

}  // namespace

void read_deepspeed_precision(const KeysToPlan& to) {
  const bool bf16 = is_on(to, "bf16"), fp16 = is_on(to, "fp16");
  check_formats(to, bf16, fp16);
  const DType compute = bf16 ? DType::kBf16 : fp16 ? DType::kF16 : DType::kF32;
  choose_kernels(compute, "", to.around.device, to.plan, to.config);
  choose_recipe(to, compute);
  to.plan.loss_scaling = fp16;
}

}  // namespace zplan
