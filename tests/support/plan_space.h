// The space of plans that the cross-checks draw from (plan_cover.h): what is varied, between which
// levels, and which combinations are legal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_schedule.h"
#include "planner/plan/refusal.h"
#include "planner/program/kernels/kernel_set.h"
#include "tests/support/decision_levels.h"

namespace zplan::testing_support {

inline constexpr std::int64_t kGlobalBatch = 8;
inline constexpr std::int32_t kMostRanks = 4;
inline constexpr std::int32_t kMostRanksOfGroups = 8;  // within groups: these take 4 replicas

inline Plan base_plan(const std::string& kernel_set, const std::string& model = "tiny-gpt") {
  Plan plan;
  plan.model = model;
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(kernel_set);
  plan.batch = {.global_batch = kGlobalBatch, .micro_batch = 4, .sequence = 32};
  return plan;
}

// One rank, nothing sharded, nothing recomputed, nothing offloaded.
inline Plan reference_plan(const std::string& kernel_set, const std::string& model = "tiny-gpt") {
  return base_plan(kernel_set, model);
}

// What is varied: a decision, or one with what depends on it. Its first level is the plain one.
struct Factor {
  std::string pointer;
  int levels = 0;
  std::function<void(Plan&, int level)> set;
};

inline std::vector<RecomputeRun> recompute_of(int level) {
  using enum LayerOperator;
  switch (level) {
    case 1:
      return {{Recompute::kSelective, 0}};
    case 2:
      return {{Recompute::kFull, 0}};
    case 3:
      return {{Recompute::kFull, 1}, {Recompute::kNone, 2}, {Recompute::kSelective, 0}};
    case 4:
      return {{Recompute::kOperators, 0, {kNorm, kAttention, kFc1, kActivation}}};
    case 5:
      return {{Recompute::kOperators, 2, {kActivation}},
              {Recompute::kOperators, 0, {kQkv, kAttention, kProjection, kExperts}}};
    case 6:
      return {{Recompute::kOperators, 0, {kNorm}, {kQkv, kFc1, kActivation}, {kAttention}}};
    case 7:
      return {{Recompute::kOperators, 1, {}, {}, {kAttention, kProjection}},
              {Recompute::kFull, 1},
              {Recompute::kOperators, 0, {}, {kNorm, kActivation, kExperts}}};
    default:
      return {{Recompute::kNone, 0}};
  }
}

inline constexpr const char* kModels[] = {
    "tiny-gpt",      "tiny-llama",          "tiny-mla",        "tiny-moe",
    "tiny-deepseek", "tiny-gemma",          "tiny-neox",       "tiny-bloom",
    "tiny-oss",      "tiny-bert",           "tiny-gpt-oss",    "tiny-blender",
    "tiny-t5",       "tiny-bert-published", "tiny-switch",     "tiny-olmo2",
    "tiny-cohere2",  "tiny-granite",        "tiny-modernbert", "tiny-qwen-moe",
    "tiny-latent",   "tiny-mamba",          "tiny-hybrid",     "tiny-delta",
    "tiny-kimi",     "tiny-jamba",          "tiny-falcon",     "tiny-lfm2",
    "tiny-dsa",      "tiny-vision"};

// The level of "/kernel_set" besides the plain set: one that fuses nothing, two that round
// the operands of products to fp8, and 16-bit sets with each of their recipes. In fp64 there are
// none of the latter: such plans train as the plain set does.
struct SetLevel {
  std::string_view type, recipe;
};
inline constexpr SetLevel kSetLevels[] = {{"", ""},
                                          {"unfused", ""},
                                          {"fp8", ""},
                                          {"fp8.whole", ""},
                                          {"bf16", "standard"},
                                          {"bf16", "fp32-gradients"},
                                          {"bf16", "lean"},
                                          {"bf16", "fsdp"},
                                          {"bf16", "fsdp-pure"},
                                          {"bf16", "main-gradients"},
                                          {"bf16", "fp32-reduction"},
                                          {"bf16", "half-reduction"},
                                          {"fp16", "standard"}};

// The level of "/optimizer/kind": each, and small blocks, which tensor parallel ranks can cut.
inline constexpr OptimizerChoice kOptimizerLevels[] = {
    {},
    {.kind = OptimizerKind::kSgdMomentum},
    {.kind = OptimizerKind::kSgd},
    {.kind = OptimizerKind::kAdamW8Bit},
    {.kind = OptimizerKind::kAdamW8Bit, .block = 8},
    {.kind = OptimizerKind::kMuon},
    {.kind = OptimizerKind::kAdafactor}};

// The level of "/train/what".
inline constexpr TrainedChoice kTrainedLevels[] = {
    {},
    {.what = zplan::Trained::kLayers},
    {.what = zplan::Trained::kLora},
    {.what = zplan::Trained::kLora, .rank = 3, .alpha = 5, .targets = LoraTargets::kQkv},
    {.what = zplan::Trained::kLora, .base = BaseType::kNf4},
    {.what = zplan::Trained::kLora,
     .by_root = true,
     .base = BaseType::kFp4Double,
     .saved = LoraSaved::kBoth}};

inline void set_kernels(Plan& plan, int level) {
  const SetLevel& set = kSetLevels[level];
  const bool is_f64 = plan.kernel_set == "cpu.f64";
  if (set.type == "unfused" || set.type.starts_with("fp8")) {
    plan.kernel_set += "." + std::string(set.type);
  } else if (!set.type.empty() && !is_f64) {
    plan.kernel_set = "cpu." + std::string(set.type);
  }
  const bool has_recipe = !set.recipe.empty() && !is_f64;
  plan.precision =
      has_recipe ? *find_recipe(set.recipe, plan.kernel_set) : default_recipe(plan.kernel_set);
  plan.loss_scaling = find_kernel_set(plan.kernel_set).loss_scaling;
}

inline bool has_experts(const std::string& model) {
  static const std::set<std::string> with_some = [] {
    std::set<std::string> names;
    for (const char* name : kModels)
      if (load_model(name).experts) names.insert(name);
    return names;
  }();
  return with_some.contains(model);
}

// Those with levels of their own, each after those that it depends on.
inline std::vector<Factor> own_factors() {
  return {
      {"/model", static_cast<int>(std::size(kModels)),
       [](Plan& p, int level) { p.model = kModels[level]; }},
      {"/kernel_set", static_cast<int>(std::size(kSetLevels)), set_kernels},
      {"/optimizer/kind", static_cast<int>(std::size(kOptimizerLevels)),
       [](Plan& p, int level) { p.optimizer = kOptimizerLevels[level]; }},
      {"/train/what", static_cast<int>(std::size(kTrainedLevels)),
       [](Plan& p, int level) {
         const VisionTrained vision = p.train.vision;
         p.train = kTrainedLevels[level];
         p.train.vision = vision;
       }},
      {"/parallel/pp", 3, [](Plan& p, int level) { p.parallel.pp = level + 1; }},
      {"/parallel/dp", 3, [](Plan& p, int level) { p.parallel.dp = 1 << level; }},
      {"/parallel/tp", 3, [](Plan& p, int level) { p.parallel.tp = 1 << level; }},
      {"/parallel/cp", 3, [](Plan& p, int level) { p.parallel.cp = 1 << level; }},
      {"/parallel/ring", 3, [](Plan& p, int level) { p.parallel.ring = 1 << level; }},
      // Not from a file, which is of one number of stages and of micro-batches.
      {"/parallel/schedule", static_cast<int>(Schedule::kFile),
       [](Plan& p, int level) {
         p.schedule = static_cast<Schedule>(level);
         if (reaches_across_steps(p) || updates_each_micro_batch(p)) p.clip = false;
       }},
      {"/parallel/shards", 2,
       [](Plan& p, int level) { p.parallel.shards = level * std::max(1, p.replicas() / 2); }},
      {"/parallel/secondary", 2, [](Plan& p, int level) { p.secondary = 2 * level; }},
      {"/parallel/parameter_shards", 2, [](Plan& p, int level) { p.parameter_shards = 2 * level; }},
      {"/experts/capacity_factor", 2, [](Plan& p, int level) { p.capacity_factor = 0.75 * level; }},
      {"/parallel/expert_tp", 2, [](Plan& p, int level) { p.parallel.expert_tp = level; }},
      {"/experts/dispatcher", 2,
       [](Plan& p, int level) { p.dispatcher = static_cast<Dispatcher>(level); }},
      {"/parallel/flushes", 2, [](Plan& p, int level) { p.parallel.flushes = level + 1; }},
      // Room for whatever comes, or for twice the mean.
      {"/experts/imbalance", 2,
       [](Plan& p, int level) {
         if (level > 0 || has_experts(p.model)) p.expert_imbalance = 2.0 * level;
       }},
      {"/parallel/stage_layers", 2,
       [](Plan& p, int level) {
         if (level == 0) return;
         const std::int32_t pieces = p.pieces();
         if (pieces == 6) {
           p.stage_layers = {0, 1, 1, 1, 1, 0};
         } else if (pieces == 4) {
           p.stage_layers = {0, 1, 2, 1};
         } else if (pieces == 3) {
           p.stage_layers = {1, 1, 2};
         } else {
           p.stage_layers = {1, 3};
         }
       }},
      {"/placement/optimizer_near", 2,
       [](Plan& p, int level) { p.placement.optimizer_near = 0.5 * level; }},
      {"/placement/params_near", 2,
       [](Plan& p, int level) { p.placement.params_near = 0.5 * level; }},
      {"/placement/grads_near", 2,
       [](Plan& p, int level) { p.placement.grads_near = 0.25 * level; }},
      // Which takes no clipping, and the optimizer on the host.
      {"/overlap/optimizer", 2,
       [](Plan& p, int level) {
         if (level == 0) return;
         p.overlap.optimizer = true;
         p.clip = false;
         if (p.placement.optimizer == Tier::kGpu) p.placement.optimizer = Tier::kCpu;
       }},
      {"/recompute", 8, [](Plan& p, int level) { p.recompute = recompute_of(level); }},
      {"/batch/micro_batch", 3, [](Plan& p, int level) {
         p.batch.micro_batch = kGlobalBatch / (std::int64_t{p.parallel.dp} << level);
       }}};
}

// Not what changes the numbers that are trained, and what has tests of its own.
inline bool is_covered(const Decision& row) {
  constexpr std::string_view kNot[] = {
      "/hardware",      "/parallel/order", "/dropout",         "/launch",     "/slack",
      "/clip",          "/loss_scaling",   "/optimizer/block", "/train/rank", "/train/alpha",
      "/train/targets", "/train/by_root",  "/train/base",      "/train/saved"};
  return std::find(std::begin(kNot), std::end(kNot), row.pointer) == std::end(kNot) &&
         !row.pointer.starts_with("/precision/") && !row.pointer.starts_with("/batch/");
}

// Every other decision varies by itself.
inline const std::vector<Factor>& factors() {
  static const std::vector<Factor> all = [] {
    std::vector<Factor> own = own_factors(), result;
    for (const Decision& row : kChoices) {
      const bool has_own = std::any_of(own.begin(), own.end(),
                                       [&](const Factor& f) { return f.pointer == row.pointer; });
      if (has_own || !is_covered(row)) continue;
      const std::vector<Setting> levels = levels_of(row);
      result.push_back({std::string(row.pointer), static_cast<int>(levels.size()),
                        [&row, levels](Plan& p, int level) {
                          row.field.set(p, levels[static_cast<std::size_t>(level)]);
                        }});
    }
    result.insert(result.end(), own.begin(), own.end());
    return result;
  }();
  return all;
}

using Choice = std::vector<int>;  // the level of each factor

// Its place in a choice.
inline std::size_t factor(std::string_view pointer) {
  const std::vector<Factor>& all = factors();
  std::size_t f = 0;
  while (all.at(f).pointer != pointer) ++f;
  return f;
}

inline Plan plan_of(const Choice& c, const std::string& kernel_set) {
  Plan p = base_plan(kernel_set);
  for (std::size_t f = 0; f < c.size(); ++f) factors()[f].set(p, c[f]);
  return p;
}

inline constexpr int kAllRules = std::numeric_limits<int>::max();

// How many rules a choice keeps before the first that it breaks; kAllRules where it is legal.
inline int rules_kept(const Choice& c) {
  static const auto shapes = [] {
    std::vector<ModelShape> all;
    for (const char* model : kModels) all.push_back(shape_of(load_model(model)));
    return all;
  }();
  static const std::size_t model = factor("/model");
  const Plan p = plan_of(c, "cpu.f32");
  const bool has_groups = p.secondary > 0 || p.parameter_shards > 0;
  // A level that changes nothing is none.
  const bool idle = p.parallel.shards != 0 && p.parallel.dp == 1;
  const bool own_rules[] = {p.parallel.ranks() <= (has_groups ? kMostRanksOfGroups : kMostRanks),
                            !idle, p.batch.micro_batch > 0};
  int kept = 0;
  for (const bool keeps : own_rules) {
    if (!keeps) return kept;
    ++kept;
  }
  const auto refusal = refusal_of(p, shapes[static_cast<std::size_t>(c[model])]);
  return refusal ? kept + refusal->kept : kAllRules;
}

inline bool is_legal(const Choice& c) { return rules_kept(c) == kAllRules; }

// The same training on one rank, nothing sharded, recomputed or offloaded.
inline Plan on_one_rank(const Plan& plan) {
  Plan one = reference_plan(plan.kernel_set, plan.model);
  one.precision = plan.precision;
  one.loss_scaling = plan.loss_scaling;
  one.optimizer = plan.optimizer;
  one.train = plan.train;
  one.clip = plan.clip;
  // Parameters are cast as they are gathered, gradients as they are reduced.
  const bool casts = plan.precision.grad_cast != GradientCast::kNone;
  one.zero_stage = plan.casts_params() ? 3 : casts ? 2 : 0;
  one.capacity_factor = plan.capacity_factor;  // of sequences, which no plan here cuts
  one.delayed_update = plan.updates_late();
  // The scale of an operand is that of its micro-batch.
  if (find_kernel_set(plan.kernel_set).rounds_whole) one.batch.micro_batch = plan.batch.micro_batch;
  if (one.delayed_update) one.placement.optimizer = Tier::kCpu;
  if (updates_each_micro_batch(plan)) {
    one.schedule = plan.schedule;
    one.parallel.chunks = plan.pieces();
    one.stage_layers = plan.stage_layers;
    one.batch.micro_batch = plan.batch.micro_batch * plan.parallel.dp;
  }
  return one;
}

// "z3_p2d2t1_recompute2_gather_unit3": the levels that are not the plain ones; also a valid test
// name.
inline std::string name_of(const Choice& c) {
  const Plan p = plan_of(c, "cpu.f32");
  std::string s = "z" + std::to_string(p.zero_stage) + "_p" + std::to_string(p.parallel.pp) + "d" +
                  std::to_string(p.parallel.dp) + "t" + std::to_string(p.parallel.tp);
  for (std::size_t f = 0; f < c.size(); ++f) {
    std::string factor = factors()[f].pointer;
    const bool is_said = factor == "/zero_stage" || factor.ends_with("/dp") ||
                         factor.ends_with("/tp") || factor.ends_with("/pp");
    if (c[f] == 0 || is_said) continue;
    std::replace(factor.begin(), factor.end(), '/', '_');
    s += factor + std::to_string(c[f]);
  }
  return s;
}

}  // namespace zplan::testing_support
