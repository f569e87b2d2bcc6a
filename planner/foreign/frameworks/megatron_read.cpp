#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/choose_kernels.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/unit_elements.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

class Reading {
 public:
  Reading(const JsonNode& root, const Surroundings& around)
      : table_("megatron.json"),
        root_(root),
        config_(megatron_options(root), table_),
        around_(around) {}

  Setup read() {
    out_.version = table_.version();
    out_.stack = "megatron_core";
    plan().model = around_.model.name;
    check_options();
    read_parallel();
    read_precision();
    read_sharding();
    read_recomputation();
    read_homes();
    read_batch();
    read_pipeline();
    read_rest();
    plan().gather = plan().zero_stage >= 2 ? Gather::kLayer : bucket_unit();
    out_.findings = std::move(config_).findings();
    return std::move(out_);
  }

 private:
  Plan& plan() { return out_.plan; }

  std::int32_t count(std::string_view option, std::int64_t most) const {
    return static_cast<std::int32_t>(config_.integer(option, 1, most));
  }

  // Megatron-DeepSpeed began as Megatron-LM and adds options of its own.
  bool is_fork() const {
    return config_.has("--deepspeed") || config_.has("--deepspeed_config") ||
           config_.has("--zero-stage");
  }

  // Whose the options are that Megatron-LM does not have: of its own programs nobody's.
  std::string owner() const {
    constexpr std::string_view kOwn[] = {"pretrain_gpt.py",    "pretrain_bert.py",
                                         "pretrain_t5.py",     "pretrain_mamba.py",
                                         "pretrain_hybrid.py", "pretrain_retro.py"};
    const auto script = find_key(root_, "script");
    if (!script || !script->is_string()) return "the program that is started";
    const std::string path = script->string();
    const std::string name = path.substr(path.rfind('/') + 1);
    return std::ranges::find(kOwn, name) != std::end(kOwn) ? "" : name;
  }

  void check_options() {
    if (is_fork()) {
      config_.add(Trouble::kNotModelled, "--deepspeed",
                  "of Megatron-DeepSpeed the options are read that Megatron-LM has, and the stage "
                  "of ZeRO; check DeepSpeed's own configuration beside it");
      return;
    }
    config_.check_keys(owner());
    constexpr std::pair<std::string_view, std::string_view> kNoLonger[] = {
        {"--batch-size", "--micro-batch-size"},
        {"--warmup", "--lr-warmup-fraction"},
        {"--model-parallel-size", "--tensor-model-parallel-size"},
        {"--checkpoint-activations", "--recompute-granularity full"}};
    for (const auto& [option, now] : kNoLonger)
      if (config_.has(option))
        config_.add(
            Trouble::kRemoved, option,
            fmt::format("{} {} stops at it: use {}", table_.framework(), table_.version(), now));
  }

  // Ranks that the launcher starts; without one those of the cluster.
  std::int64_t ranks() {
    const auto per_node = find_key(root_, "launcher.--nproc_per_node"),
               of_dash = find_key(root_, "launcher.--nproc-per-node");
    const auto& processes = per_node ? per_node : of_dash;
    const auto nodes = find_key(root_, "launcher.--nnodes");
    if (!processes || !processes->is_number()) return around_.ranks;
    const bool has_nodes = nodes && nodes->is_number();
    const std::int64_t started =
        processes->integer(1, kMaxDp) * (has_nodes ? nodes->integer(1, kMaxDp) : 1);
    if (started != around_.ranks)
      config_.add(
          Trouble::kAssumed, "",
          fmt::format("the launcher starts {} ranks, the cluster has {} GPUs: planned for these",
                      started, around_.ranks));
    return around_.ranks;
  }

  void read_parallel() {
    Parallel& p = plan().parallel;
    p.tp = count("--tensor-model-parallel-size", kMaxTp);
    p.pp = config_.has("--no-pipeline-parallel")
               ? 1
               : count("--pipeline-model-parallel-size", kMaxStages);
    p.cp = count("--context-parallel-size", kMaxDp);
    p.ring = p.cp;
    read_experts();
    if (config_.has("--cp-comm-type") &&
        config_.word("--cp-comm-type", {"p2p", "a2a", "allgather", "a2a+p2p"}) == "a2a")
      p.ring = 1;
    p.sequence_parallel = config_.flag("--sequence-parallel") && p.tp > 1;
    if (config_.flag("--sequence-parallel") && p.tp == 1)
      config_.add(Trouble::kNoEffect, "--sequence-parallel",
                  "of tensor parallel ranks, of which there is one");
    const std::int64_t all = ranks(), cut = std::int64_t{p.tp} * p.pp * p.cp;
    if (all % cut != 0)
      config_.add(Trouble::kError, "--tensor-model-parallel-size",
                  fmt::format("{} ranks are no multiple of {}", all, cut));
    p.dp = static_cast<std::int32_t>(std::max<std::int64_t>(all / cut, 1));
  }

  void read_experts() {
    Parallel& p = plan().parallel;
    const std::int32_t ep = count("--expert-model-parallel-size", kMaxDp);
    if (around_.model.experts) {
      p.ep = ep;
      if (config_.has("--expert-tensor-parallel-size"))
        p.expert_tp = count("--expert-tensor-parallel-size", kMaxTp);
    } else if (ep > 1) {
      config_.add(Trouble::kError, "--expert-model-parallel-size",
                  "needs --num-experts; the model has none");
    } else if (config_.has("--expert-tensor-parallel-size")) {
      config_.add(Trouble::kNoEffect, "--expert-tensor-parallel-size",
                  "of experts, of which the model has none");
    }
  }

  void read_precision() {
    const bool bf16 = config_.flag("--bf16"), fp16 = config_.flag("--fp16");
    if (bf16 && fp16)
      config_.add(Trouble::kError, "--fp16", "--bf16 and --fp16 exclude each other");
    const DType compute = bf16 ? DType::kBf16 : fp16 ? DType::kF16 : DType::kF32;
    const LayerProducts products =
        config_.has("--fp8-format") ? LayerProducts::kFp8 : LayerProducts::kAsStored;
    const KernelSet& set = choose_kernels(compute, products, around_.device, plan(), config_);
    plan().loss_scaling = fp16 && !bf16;
    const bool in_fp32 = compute != DType::kF32 && !config_.flag("--grad-reduce-in-bf16");
    if (const auto recipe = find_recipe("fp32-gradients", plan().kernel_set); in_fp32 && recipe)
      plan().precision = *recipe;
    const bool drops = config_.number("--attention-dropout", 0, 1) > 0 ||
                       config_.number("--hidden-dropout", 0, 1) > 0;
    plan().dropout = drops && set.dropout;
  }

  void read_sharding() {
    if (config_.flag("--use-distributed-optimizer")) plan().zero_stage = 1;
    if (config_.flag("--use-torch-fsdp2")) plan().zero_stage = 3;
    if (config_.has("--zero-stage"))
      plan().zero_stage = static_cast<std::int32_t>(config_.find("--zero-stage")->integer(0, 3));
    if (config_.flag("--use-megatron-fsdp")) {
      const std::string strategy =
          config_.word("--data-parallel-sharding-strategy",
                       {"no_shard", "optim", "optim_grads", "optim_grads_params"});
      plan().zero_stage = strategy == "no_shard"      ? 0
                          : strategy == "optim"       ? 1
                          : strategy == "optim_grads" ? 2
                                                      : 3;
    }
    const std::int64_t instances =
        config_.integer("--num-distributed-optimizer-instances", 1, kMaxDp);
    if (instances > 1 && plan().replicas() % instances == 0)
      plan().parallel.shards = static_cast<std::int32_t>(plan().replicas() / instances);
    const bool is_fsdp = plan().zero_stage >= 2;
    plan().overlap.gradients = config_.flag("--overlap-grad-reduce") || is_fsdp;
    plan().overlap.parameters = config_.flag("--overlap-param-gather") || is_fsdp;
    if (config_.flag("--overlap-param-gather") && plan().zero_stage == 0)
      config_.add(Trouble::kError, "--overlap-param-gather", "needs --use-distributed-optimizer");
  }

  // Experts, and Muon, take one layer after the other.
  // [MegatronCore distributed/distributed_data_parallel_config.py]
  Gather bucket_unit() const {
    constexpr std::int64_t kLeast = 40'000'000, kPerReplica = 1'000'000;
    const std::int64_t usual = std::max(kLeast, kPerReplica * out_.plan.parallel.dp);
    const std::int64_t bucket = config_.has("--ddp-bucket-size")
                                    ? config_.integer("--ddp-bucket-size", 1, std::int64_t{1} << 40)
                                    : usual;
    const Gather unit = unit_of_bucket(bucket, out_.plan, around_.model);
    const bool by_layer =
        around_.model.experts.has_value() || out_.plan.optimizer.kind == OptimizerKind::kMuon;
    return by_layer && unit.by_layer() ? Gather(Gather::kLayer) : unit;
  }

  void read_recomputation() {
    std::string granularity = config_.has("--recompute-granularity")
                                  ? config_.word("--recompute-granularity", {"full", "selective"})
                                  : "";
    if (config_.flag("--recompute-activations")) granularity = "selective";
    if (is_fork() && config_.flag("--checkpoint-activations")) {
      plan().recompute = {{Recompute::kFull}};
      return;
    }
    if (granularity == "selective") read_selective();
    if (granularity == "full") read_full();
    plan().partition_activations = config_.flag("--distribute-saved-activations");
  }

  void read_selective() {
    const auto modules = config_.find("--recompute-modules");
    plan().recompute = {{Recompute::kSelective}};
    if (!modules) return;
    OperatorSet operators;
    const std::vector<JsonNode> words =
        modules->is_array() ? modules->items() : std::vector<JsonNode>{*modules};
    for (const JsonNode& word : words) {
      const std::string module = word.string();
      if (module == "core_attn")
        operators.add(LayerOperator::kAttention);
      else if (module == "layernorm")
        operators.add(LayerOperator::kNorm);
      else if (module == "mlp") {
        operators.add(LayerOperator::kFc1);
        operators.add(LayerOperator::kActivation);
      } else if (module == "moe_act")
        operators.add(LayerOperator::kActivation);
      else
        config_.add(Trouble::kNotModelled, "--recompute-modules",
                    fmt::format("{} is counted as kept", in_quotes(module)));
    }
    if (!operators.empty())
      plan().recompute = {{.mode = Recompute::kOperators, .operators = operators}};
  }

  // uniform n: checkpoints of n layers; block n: the first n layers of each stage.
  void read_full() {
    plan().recompute = {{Recompute::kFull}};
    if (!config_.has("--recompute-method")) {
      config_.add(Trouble::kError, "--recompute-granularity",
                  "full needs --recompute-method uniform or block");
      return;
    }
    const bool in_block = config_.word("--recompute-method", {"uniform", "block"}) == "block";
    const std::int64_t n = config_.has("--recompute-num-layers")
                               ? config_.integer("--recompute-num-layers", 0, kMaxLayers)
                               : 1;
    if (!in_block) {
      plan().checkpoint_layers = static_cast<std::int32_t>(std::max<std::int64_t>(n, 1));
      return;
    }
    const std::int64_t per_stage = around_.model.layers / plan().parallel.pp;
    if (n >= per_stage) return;
    plan().recompute.clear();
    for (std::int32_t stage = 0; stage < plan().parallel.pp; ++stage) {
      if (n > 0)
        plan().recompute.push_back(
            {.mode = Recompute::kFull, .layers = static_cast<std::int32_t>(n)});
      plan().recompute.push_back(
          {.mode = Recompute::kNone, .layers = static_cast<std::int32_t>(per_stage - n)});
    }
    plan().recompute.back().layers = 0;
  }

  void read_homes() {
    if (config_.flag("--optimizer-cpu-offload")) {
      plan().placement.optimizer = Tier::kCpu;
      plan().placement.optimizer_near = 1 - config_.number("--optimizer-offload-fraction", 0, 1);
      if (!config_.flag("--use-precision-aware-optimizer"))
        config_.add(Trouble::kError, "--optimizer-cpu-offload",
                    "needs --use-precision-aware-optimizer");
    }
    const std::int64_t layers = config_.integer("--cpu-offloading-num-layers", 0, kMaxLayers);
    if (layers == 0) return;
    if (plan().parallel.pp > 1)
      config_.add(Trouble::kError, "--cpu-offloading-num-layers", "not with a pipeline");
    else
      config_.add(Trouble::kNotModelled, "--cpu-offloading-num-layers",
                  "activations are counted on the GPU");
  }

  void read_batch() {
    Batch& batch = plan().batch;
    batch.micro_batch = config_.has("--micro-batch-size")
                            ? config_.integer("--micro-batch-size", 1, kMaxGlobalBatch)
                            : around_.asked.get("/batch/micro_batch", std::int64_t{1});
    const std::int64_t together = batch.micro_batch * plan().parallel.dp;
    batch.global_batch = config_.has("--global-batch-size")
                             ? config_.integer("--global-batch-size", 1, kMaxGlobalBatch)
                             : together;
    batch.sequence = config_.has("--seq-length") ? config_.integer("--seq-length", 1, kMaxSequence)
                                                 : around_.model.sequence;
    if (batch.global_batch % together == 0) return;
    config_.add(Trouble::kError, "--global-batch-size",
                fmt::format("{} is no multiple of micro-batch {} x {} replicas", batch.global_batch,
                            batch.micro_batch, plan().parallel.dp));
    batch.global_batch = std::max<std::int64_t>(batch.global_batch / together, 1) * together;
  }

  void read_pipeline() {
    const std::int32_t pp = plan().parallel.pp;
    std::int64_t chunks = 1;
    if (config_.has("--num-virtual-stages-per-pipeline-rank"))
      chunks = config_.integer("--num-virtual-stages-per-pipeline-rank", 1, kMaxChunks);
    if (config_.has("--num-layers-per-virtual-pipeline-stage"))
      chunks = std::max<std::int64_t>(
          around_.model.layers / pp /
              config_.integer("--num-layers-per-virtual-pipeline-stage", 1, kMaxLayers),
          1);
    if (chunks > 1 && pp == 1) {
      config_.add(Trouble::kError, "--num-layers-per-virtual-pipeline-stage",
                  "needs a pipeline of at least 2 stages");
    } else if (chunks > 1) {
      plan().schedule = Schedule::kInterleaved;
      plan().parallel.chunks = static_cast<std::int32_t>(chunks);
    }
    if (pp > 1 && chunks == 1) read_ends();
    if (config_.has("--pipeline-model-parallel-layout"))
      config_.add(Trouble::kNotModelled, "--pipeline-model-parallel-layout",
                  "stages are taken to be even");
  }

  // Stages of which the first or the last have another number of layers.
  void read_ends() {
    const std::int32_t pp = plan().parallel.pp;
    const auto of = [&](const char* option) {
      return config_.has(option) ? config_.integer(option, 1, kMaxLayers) : 0;
    };
    const std::int64_t first = of("--decoder-first-pipeline-num-layers"),
                       last = of("--decoder-last-pipeline-num-layers");
    const std::int64_t inner = pp - (first > 0) - (last > 0),
                       rest = around_.model.layers - first - last;
    if (first + last == 0 || inner < 1) return;
    if (rest < inner || rest % inner != 0) {
      config_.add(Trouble::kError, "--decoder-first-pipeline-num-layers",
                  fmt::format("{} layers do not come to {} equal stages", rest, inner));
      return;
    }
    plan().stage_layers.assign(static_cast<std::size_t>(pp),
                               static_cast<std::int32_t>(rest / inner));
    if (first > 0) plan().stage_layers.front() = static_cast<std::int32_t>(first);
    if (last > 0) plan().stage_layers.back() = static_cast<std::int32_t>(last);
  }

  void read_rest() {
    plan().clip = config_.number("--clip-grad", 0, 1e9) > 0;
    if (config_.flag("--use-tp-pp-dp-mapping")) plan().order = RankOrder::kPipelineFirst;
    const bool graphs = config_.flag("--enable-cuda-graph") ||
                        config_.word("--cuda-graph-impl", {"none", "local", "transformer_engine",
                                                           "full_iteration"}) != "none";
    plan().launch = graphs ? LaunchMode::kGraph : LaunchMode::kStream;
    if (config_.has("--moe-expert-capacity-factor"))
      plan().capacity_factor = config_.number("--moe-expert-capacity-factor", 0, kMaxExpertFactor);
    if (config_.has("--mtp-num-layers"))
      config_.add(Trouble::kNotModelled, "--mtp-num-layers",
                  "layers that predict further tokens are not counted");
    if (config_.has("--optimizer")) read_optimizer();
  }

  void read_optimizer() {
    const std::string word = config_.find("--optimizer")->string();
    if (word == "sgd")
      plan().optimizer.kind = OptimizerKind::kSgdMomentum;
    else if (word == "muon" || word == "dist_muon")
      plan().optimizer.kind = OptimizerKind::kMuon;
    else if (word != "adam")
      config_.add(Trouble::kNotModelled, "--optimizer",
                  fmt::format("{}: counted as Adam", in_quotes(word)));
  }

  KeyTable table_;
  JsonNode root_;
  ConfigReader config_;
  const Surroundings& around_;
  Setup out_;
};

}  // namespace

JsonNode megatron_options(const JsonNode& root) {
  if (const auto arguments = find_key(root, "arguments"); arguments && arguments->is_object())
    return *arguments;
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

Setup read_megatron(const JsonNode& root, const Surroundings& around) {
  return Reading(root, around).read();
}

}  // namespace zplan
