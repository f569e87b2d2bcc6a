#include <fmt/format.h>

#include <algorithm>

#include "planner/foreign/frameworks/common_rules.h"
#include "planner/foreign/frameworks/megatron_parts.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

std::int32_t count(const KeysToPlan& to, std::string_view option, std::int64_t most) {
  return static_cast<std::int32_t>(to.config.integer(option, 1, most));
}

void read_dispatcher(const KeysToPlan& to) {
  const std::string_view key = "--moe-token-dispatcher-type";
  const std::string word = to.config.word(key, {"allgather", "alltoall", "flex"});
  if (word == name(Dispatcher::kAllGather)) to.plan.dispatcher = Dispatcher::kAllGather;
  if (word != "flex") return;
  const bool hybrid = to.config.word("--moe-flex-dispatcher-backend", {"deepep", "hybridep"}) ==
                      name(Dispatcher::kHybridEp);
  to.plan.dispatcher = hybrid ? Dispatcher::kHybridEp : Dispatcher::kDeepEp;
}

void read_experts(const KeysToPlan& to) {
  const std::string_view experts = "--expert-model-parallel-size",
                         tensors = "--expert-tensor-parallel-size";
  const std::int32_t ep = count(to, experts, kMaxDp);
  if (to.around.model.experts) {
    to.plan.parallel.ep = ep;
    if (ep > 1) read_dispatcher(to);
    if (to.config.has(tensors)) to.plan.parallel.expert_tp = count(to, tensors, kMaxTp);
  } else if (ep > 1) {
    to.config.add(Trouble::kError, experts, "needs --num-experts; the model has none");
  } else if (to.config.has(tensors)) {
    to.config.add(Trouble::kNoEffect, tensors, "of experts, of which the model has none");
  }
}

// How many pieces of the model each stage has.
std::int64_t read_chunks(const KeysToPlan& to) {
  const std::string_view stages = "--num-virtual-stages-per-pipeline-rank",
                         layers = "--num-layers-per-virtual-pipeline-stage";
  std::int64_t chunks = to.config.has(stages) ? to.config.integer(stages, 1, kMaxChunks) : 1;
  if (to.config.has(layers))
    chunks = std::max<std::int64_t>(
        to.around.model.layers / to.plan.parallel.pp / to.config.integer(layers, 1, kMaxLayers), 1);
  if (chunks > 1 && to.plan.parallel.pp == 1)
    to.config.add(Trouble::kError, to.config.has(layers) ? layers : stages,
                  "needs a pipeline of at least 2 stages");
  return chunks;
}

// Stages of which the first or the last have another number of layers.
void read_ends(const KeysToPlan& to) {
  const std::int32_t pp = to.plan.parallel.pp;
  const auto of = [&](std::string_view option) {
    return to.config.has(option) ? to.config.integer(option, 1, kMaxLayers) : 0;
  };
  const std::int64_t first = of("--decoder-first-pipeline-num-layers"),
                     last = of("--decoder-last-pipeline-num-layers");
  const std::int64_t inner = pp - (first > 0) - (last > 0),
                     rest = to.around.model.layers - first - last;
  if (first + last == 0) return;
  if (inner == 0 ? rest != 0 : rest < inner || rest % inner != 0) {
    to.config.add(Trouble::kError, "--decoder-first-pipeline-num-layers",
                  fmt::format("{} layers do not come to {} equal stages", rest, inner));
    return;
  }
  std::vector<std::int32_t>& layers = to.plan.stage_layers;
  layers.assign(static_cast<std::size_t>(pp),
                static_cast<std::int32_t>(inner == 0 ? 0 : rest / inner));
  if (first > 0) layers.front() = static_cast<std::int32_t>(first);
  if (last > 0) layers.back() = static_cast<std::int32_t>(last);
}

constexpr std::string_view kBesideLayers = "--overlap-moe-expert-parallel-comm",
                           kWeightsLater = "--delay-wgrad-compute",
                           kBesideWeights = "--overlap-dispatch-backward-with-experts-wgrad",
                           kBesideShared = "--moe-shared-expert-overlap";

// Returns whether layers of two micro-batches take turns: where Megatron does not start, and where
// there is no other micro-batch, they do not.
bool read_layers_in_turns(const KeysToPlan& to) {
  if (!to.config.flag(kBesideLayers)) return false;
  const Plan& plan = to.plan;
  const auto refuse = [&](Trouble trouble, std::string why) {
    to.config.add(trouble, kBesideLayers, std::move(why));
    return false;
  };
  if (plan.parallel.ep == 1)
    return refuse(Trouble::kError, "needs --expert-model-parallel-size of at least 2");
  if (plan.parallel.pp > 1 && plan.schedule != Schedule::kInterleaved)
    return refuse(Trouble::kError,
                  "needs --num-virtual-stages-per-pipeline-rank where there is a pipeline");
  if (std::ranges::any_of(plan.recompute,
                          [](const RecomputeRun& run) { return run.mode == Recompute::kFull; }))
    return refuse(Trouble::kError, "does not go with --recompute-granularity full");
  if (plan.micro_steps() < 2)
    return refuse(Trouble::kNoEffect, "a step has no other micro-batch to be beside");
  if (plan.dispatcher == Dispatcher::kAllGather)
    to.config.add(Trouble::kError, kBesideLayers,
                  "needs --moe-token-dispatcher-type alltoall or flex");
  return true;
}

}  // namespace

void read_megatron_ranks(const KeysToPlan& to, const JsonNode& root) {
  ConfigReader& config = to.config;
  Parallel& p = to.plan.parallel;
  p.tp = count(to, "--tensor-model-parallel-size", kMaxTp);
  if (!config.has("--no-pipeline-parallel"))
    p.pp = count(to, "--pipeline-model-parallel-size", kMaxStages);
  p.cp = count(to, "--context-parallel-size", kMaxDp);
  p.ring = p.cp;
  read_experts(to);
  if (config.has("--cp-comm-type") &&
      config.word("--cp-comm-type", {"p2p", "a2a", "allgather", "a2a+p2p"}) == "a2a")
    p.ring = 1;
  const bool in_sequence = config.flag("--sequence-parallel");
  p.sequence_parallel = in_sequence && p.tp > 1;
  if (in_sequence && p.tp == 1)
    config.add(Trouble::kNoEffect, "--sequence-parallel",
               "of tensor parallel ranks, of which there is one");
  check_launcher(config, to.around, root);
  divide_ranks(to, "--tensor-model-parallel-size");
}

void read_megatron_pipeline(const KeysToPlan& to) {
  const std::int64_t chunks = read_chunks(to);
  const std::int32_t pp = to.plan.parallel.pp;
  if (pp > 1 && chunks > 1) {
    to.plan.schedule = Schedule::kInterleaved;
    if (to.config.has("--decoder-first-pipeline-num-layers") ||
        to.config.has("--decoder-last-pipeline-num-layers"))
      to.config.add(Trouble::kNotModelled, "--decoder-first-pipeline-num-layers",
                    "pieces of virtual stages are taken to be even");
    if (chunks * pp != to.plan.pieces())
      to.plan.parallel.chunks = static_cast<std::int32_t>(chunks);
  } else if (pp > 1) {
    read_ends(to);
  }
  if (to.config.has("--pipeline-model-parallel-layout"))
    to.config.add(Trouble::kNotModelled, "--pipeline-model-parallel-layout",
                  "stages are taken to be even");
}

// [MegatronCore transformer/transformer_config.py]
void read_megatron_overlap(const KeysToPlan& to) {
  if (!to.around.model.experts) return;
  const ConfigReader& config = to.config;
  Overlap& overlap = to.plan.overlap;
  const bool exchanges = to.plan.parallel.ep > 1;
  const bool has_shared = to.around.model.experts->shared_ffn > 0;
  const bool asks_shared = config.flag(kBesideShared);
  overlap.exchange = read_layers_in_turns(to);
  overlap.weight_gradients =
      exchanges && (config.flag(kWeightsLater) || config.flag(kBesideWeights));
  overlap.shared_expert = !exchanges || !has_shared || asks_shared;
  if (asks_shared && !has_shared)
    to.config.add(Trouble::kNoEffect, kBesideShared,
                  "of a shared expert, of which the model has none");
  if (asks_shared && config.flag(kBesideLayers))
    to.config.add(Trouble::kError, kBesideShared,
                  fmt::format("does not go with {}: leave one of them out", kBesideLayers));
  if (config.flag(kWeightsLater) && !config.flag(kBesideLayers))
    to.config.add(Trouble::kError, kWeightsLater, fmt::format("needs {}", kBesideLayers));
}

}  // namespace zplan
