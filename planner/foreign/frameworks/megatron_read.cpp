#include <fmt/format.h>

#include <algorithm>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/common_rules.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/megatron_parts.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

void read_batch(const KeysToPlan& to) {
  const ConfigReader& config = to.config;
  const auto number = [&](std::string_view option, std::int64_t most, std::int64_t usual) {
    return config.has(option) ? config.integer(option, 1, most) : usual;
  };
  const std::int64_t asked = to.around.asked.get("/batch/micro_batch", std::int64_t{1});
  Batch& batch = to.plan.batch;
  batch.micro_batch = number("--micro-batch-size", kMaxGlobalBatch, asked);
  const std::int64_t together = batch.micro_batch * to.plan.parallel.dp;
  batch.global_batch = number("--global-batch-size", kMaxGlobalBatch, together);
  batch.sequence = number("--seq-length", kMaxSequence, to.around.model.sequence);
  fit_batch(to, "--global-batch-size");
}

void read_optimizer_option(const KeysToPlan& to) {
  const auto name = to.config.find("--optimizer");
  if (!name) return;
  const std::string word = name->string();
  if (word == "sgd")
    to.plan.optimizer.kind = OptimizerKind::kSgdMomentum;
  else if (word == "muon" || word == "dist_muon")
    to.plan.optimizer.kind = OptimizerKind::kMuon;
  else if (word != "adam")
    to.config.add(Trouble::kNotModelled, "--optimizer",
                  fmt::format("{}: counted as Adam", in_quotes(word)));
}

// The model may be another than that of these options.
void read_mtp_options(const KeysToPlan& to) {
  constexpr std::string_view kLayers = "--mtp-num-layers";
  if (!to.config.has(kLayers)) return;
  const std::int64_t layers = to.config.integer(kLayers, 0, kMostLayers);
  if (const std::int64_t own = to.around.model.mtp_layers; layers != own)
    to.config.add(
        Trouble::kContradicts, kLayers,
        fmt::format("the model has {} modules that predict further tokens, which its file "
                    "states as mtp_layers",
                    own));
  if (layers == 0) return;
  if (to.config.flag("--mtp-use-repeated-layer"))
    to.config.add(Trouble::kNotModelled, "--mtp-use-repeated-layer",
                  "each module is counted with a layer of its own");
  if (to.config.flag("--mtp-detach-heads"))
    to.config.add(Trouble::kNotModelled, "--mtp-detach-heads",
                  "the loss of modules is counted as one that reaches the model");
  if (to.config.has("--mtp-hybrid-override-pattern"))
    to.config.add(Trouble::kNotModelled, "--mtp-hybrid-override-pattern",
                  "each module is counted with one layer, of the kind of the last one");
}

void read_other_options(const KeysToPlan& to) {
  const ConfigReader& config = to.config;
  to.plan.clip = config.number("--clip-grad", 0, 1e9) > 0;
  if (config.flag("--use-tp-pp-dp-mapping")) to.plan.order = RankOrder::kPipelineFirst;
  const bool graphs = config.flag("--enable-cuda-graph") ||
                      config.word("--cuda-graph-impl", {"none", "local", "transformer_engine",
                                                        "full_iteration"}) != "none";
  to.plan.launch = graphs ? LaunchMode::kGraph : LaunchMode::kStream;
  if (config.has("--moe-expert-capacity-factor"))
    to.plan.capacity_factor = config.number("--moe-expert-capacity-factor", 0, kMaxExpertFactor);
  if (to.around.model.experts && config.flag("--moe-router-force-load-balancing"))
    to.plan.expert_imbalance = 1;
  read_mtp_options(to);
  read_optimizer_option(to);
}

}  // namespace

JsonNode megatron_options(const JsonNode& root) {
  if (auto arguments = arguments_of(root)) return *std::move(arguments);
  if (const auto arguments = find_key(root, "MODEL_ARGS"); arguments && arguments->is_object())
    return *arguments;
  return root;
}

bool is_megatron(const JsonNode& root) {
  constexpr std::string_view kSigns[] = {"--tensor-model-parallel-size", "--num-layers",
                                         "--micro-batch-size", "--pipeline-model-parallel-size"};
  const JsonNode options = megatron_options(root);
  return std::ranges::any_of(
      kSigns, [&](std::string_view sign) { return find_key(options, sign).has_value(); });
}

void read_megatron_plan(const KeysToPlan& to) {
  read_megatron_precision(to);
  read_megatron_sharding(to);
  read_megatron_recomputation(to);
  read_megatron_homes(to);
  read_batch(to);
  read_megatron_pipeline(to);
  read_other_options(to);
  to.plan.gather = megatron_gather(to);
  read_megatron_overlap(to);
}

Setup read_megatron(const JsonNode& root, const Surroundings& around) {
  const KeyTable& table = KeyTable::of("megatron.json");
  ConfigReader config(megatron_options(root), table);
  Setup out{.version = table.version(), .stack = "megatron_core"};
  out.plan.model = around.model.name;
  const KeysToPlan to{config, around, out.plan};
  check_megatron_options(to, table, root);
  read_megatron_ranks(to, root);
  read_megatron_plan(to);
  out.findings = std::move(config).findings();
  return out;
}

}  // namespace zplan
