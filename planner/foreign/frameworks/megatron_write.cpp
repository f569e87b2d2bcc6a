#include <fmt/format.h>

#include <algorithm>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/key_list.h"
#include "planner/foreign/frameworks/layer_pattern.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/unit_elements.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

class MegatronWriting {
 public:
  MegatronWriting(const Plan& plan, const ModelConfig& model) : plan_(plan), model_(model) {}

  std::vector<KeyValue> write() {
    write_model();
    if (model_.experts) write_experts();
    if (model_.latent) write_latent();
    write_parallel();
    write_batch();
    write_precision();
    write_sharding();
    write_recomputation();
    write_homes();
    keys_.add("--transformer-impl", "transformer_engine");
    return std::move(keys_).keys();
  }

 private:
  void flag(std::string_view option, bool is_on = true) {
    if (is_on) keys_.add(option, true);
  }

  void write_model() {
    keys_.add("--num-layers", model_.layers);
    keys_.add("--hidden-size", model_.hidden);
    keys_.add("--ffn-hidden-size", model_.ffn);
    keys_.add("--num-attention-heads", model_.heads);
    flag("--group-query-attention", model_.kv_heads != model_.heads);
    if (model_.kv_heads != model_.heads) keys_.add("--num-query-groups", model_.kv_heads);
    if (model_.own_head_size > 0) keys_.add("--kv-channels", model_.own_head_size);
    flag("--swiglu", model_.gated_mlp);
    keys_.add("--normalization", model_.norm == Norm::kRmsNorm ? "RMSNorm" : "LayerNorm");
    keys_.add("--norm-epsilon", static_cast<double>(model_.layer.norm_epsilon) / kEpsilonUnit);
    flag("--disable-bias-linear", model_.biases != Biases::kAll);
    flag("--add-qkv-bias", model_.biases == Biases::kQkv);
    flag("--qk-layernorm", model_.qk_norm);
    write_positions();
    write_window();
    if (model_.has_pattern()) write_pattern();
    if (model_.mtp_layers > 0) {
      keys_.add("--mtp-num-layers", model_.mtp_layers);
      keys_.add("--mtp-loss-scaling-factor", model_.mtp_loss);
    }
    flag("--untie-embeddings-and-output-weights", !model_.tied_embeddings);
    keys_.add("--vocab-size", model_.vocab);
    keys_.add("--tokenizer-type", "NullTokenizer");
    flag("--mock-data");
  }

  void write_window() {
    const LayerFeatures& layer = model_.layer;
    if (layer.window == 0 || layer.full_layers > 1) return;
    keys_.add("--window-size", fmt::format("({},0)", layer.window - 1));
    if (layer.full_layers == 1) keys_.add("--window-attn-skip-freq", layer.window_layers + 1);
  }

  // A pattern with a letter for each layer, or turns that end with attention.
  void write_pattern() {
    std::string letters;
    for (const LayerParts& parts : model_.pattern) letters += layer_word(parts);
    const auto layers = static_cast<std::size_t>(model_.layers);
    const bool is_theirs = letters.size() == layers &&
                           letters.find_first_not_of(kMegatronLetters) == std::string::npos;
    if (is_theirs) keys_.add("--hybrid-override-pattern", letters);
    if (is_theirs) flag("--is-hybrid-model");
    if (const auto& mamba = model_.mamba) {
      keys_.add("--mamba-num-heads", mamba->heads);
      keys_.add("--mamba-head-dim", mamba->head_size);
      keys_.add("--mamba-num-groups", mamba->groups);
      keys_.add("--mamba-state-dim", mamba->state);
    }
    flag("--attention-output-gate", model_.layer.attention_gate);
    if (!model_.delta) return;
    const DeltaShape& delta = *model_.delta;
    keys_.add("--experimental-attention-variant", "gated_delta_net");
    keys_.add("--linear-attention-freq", model_.kind_layers());
    keys_.add("--linear-num-key-heads", delta.key_heads);
    keys_.add("--linear-num-value-heads", delta.value_heads);
    keys_.add("--linear-key-head-dim", delta.key_size);
    keys_.add("--linear-value-head-dim", delta.value_size);
    keys_.add("--linear-conv-kernel-dim", delta.conv);
  }

  void write_positions() {
    const bool rotates = model_.position == Position::kRope;
    keys_.add("--position-embedding-type", rotates ? "rope"
                                           : model_.position == Position::kNone
                                               ? "none"
                                               : "learned_absolute");
    if (!rotates) return;
    keys_.add("--rotary-base", model_.rope_theta);
    if (model_.layer.rotary_size > 0)
      keys_.add("--rotary-percent", static_cast<double>(model_.layer.rotary_size) /
                                        static_cast<double>(model_.head_size()));
  }

  void write_experts() {
    const ExpertShape& experts = *model_.experts;
    keys_.add("--num-experts", experts.count);
    keys_.add("--moe-router-topk", experts.per_token);
    keys_.add("--moe-ffn-hidden-size", experts.ffn);
    if (experts.shared_ffn > 0)
      keys_.add("--moe-shared-expert-intermediate-size", experts.shared_ffn);
    flag("--moe-shared-expert-gate", experts.shared_gate);
    if (experts.latent > 0) keys_.add("--moe-latent-size", experts.latent);
    if (experts.dense_layers > 0)
      keys_.add("--moe-layer-freq", layers_with(experts));
    else if (experts.every > 1)
      keys_.add("--moe-layer-freq", experts.every);
    keys_.add("--moe-router-score-function",
              experts.scores == Scores::kSigmoid ? "sigmoid" : "softmax");
    flag("--moe-router-enable-expert-bias", experts.selection_bias);
    flag("--moe-router-pre-softmax", experts.scores == Scores::kSoftmax && !experts.renormalised);
    if (experts.groups > 1) {
      keys_.add("--moe-router-num-groups", experts.groups);
      keys_.add("--moe-router-group-topk", experts.groups_per_token);
    }
    if (experts.scale != 1) keys_.add("--moe-router-topk-scaling-factor", experts.scale);
    flag("--moe-grouped-gemm");
    const bool is_flex = sends_tokens_once(plan_.dispatcher);
    keys_.add("--moe-token-dispatcher-type", is_flex ? "flex" : name(plan_.dispatcher));
    if (is_flex) keys_.add("--moe-flex-dispatcher-backend", name(plan_.dispatcher));
    if (experts.balance > 0) keys_.add("--moe-aux-loss-coeff", experts.balance);
  }

  // Of each layer whether it has experts; as a sum where all behind the first have.
  std::string layers_with(const ExpertShape& experts) const {
    if (experts.every == 1)
      return fmt::format("([0]*{}+[1]*{})", experts.dense_layers,
                         model_.layers - experts.dense_layers);
    std::vector<int> all;
    for (std::int64_t layer = 0; layer < model_.layers; ++layer)
      all.push_back(experts.is_in(layer) ? 1 : 0);
    return fmt::format("[{}]", joined(all, ","));
  }

  void write_latent() {
    flag("--multi-latent-attention");
    if (model_.latent->query_rank > 0) keys_.add("--q-lora-rank", model_.latent->query_rank);
    keys_.add("--kv-lora-rank", model_.latent->key_value_rank);
    keys_.add("--qk-head-dim", model_.latent->nope_size);
    keys_.add("--qk-pos-emb-head-dim", model_.latent->rope_size);
    keys_.add("--v-head-dim", model_.latent->value_size);
    if (!model_.index) return;
    keys_.add("--experimental-attention-variant", "dsa");
    keys_.add("--dsa-indexer-n-heads", model_.index->heads);
    keys_.add("--dsa-indexer-head-dim", model_.index->head_size);
    keys_.add("--dsa-indexer-topk", model_.index->keys);
    keys_.add("--dsa-indexer-loss-coeff", 1);
    flag("--dsa-indexer-use-sparse-loss");
  }

  void write_parallel() {
    const Parallel& p = plan_.parallel;
    keys_.add("--tensor-model-parallel-size", p.tp);
    keys_.add("--pipeline-model-parallel-size", p.pp);
    if (p.cp > 1) keys_.add("--context-parallel-size", p.cp);
    if (p.cp > 1) keys_.add("--cp-comm-type", p.ring > 1 ? "p2p" : "a2a");
    if (p.ep > 1) keys_.add("--expert-model-parallel-size", p.ep);
    if (p.expert_tp > 0) keys_.add("--expert-tensor-parallel-size", p.expert_tp);
    if (p.ep > 1) write_exchange_overlap();
    flag("--sequence-parallel", p.sequence_parallel);
    if (plan_.schedule == Schedule::kInterleaved)
      keys_.add("--num-virtual-stages-per-pipeline-rank", plan_.pieces() / p.pp);
    write_ends();
    flag("--use-tp-pp-dp-mapping", plan_.order == RankOrder::kPipelineFirst);
    if (plan_.launch == LaunchMode::kGraph) keys_.add("--cuda-graph-impl", "local");
  }

  void write_exchange_overlap() {
    const Overlap& overlap = plan_.overlap;
    const bool has_shared = model_.experts && model_.experts->shared_ffn > 0;
    flag("--overlap-moe-expert-parallel-comm", overlap.exchange);
    flag(overlap.exchange ? "--delay-wgrad-compute"
                          : "--overlap-dispatch-backward-with-experts-wgrad",
         overlap.weight_gradients);
    flag("--moe-shared-expert-overlap", has_shared && overlap.shared_expert && !overlap.exchange);
  }

  void write_ends() {
    const std::vector<std::int32_t>& layers = plan_.stage_layers;
    if (layers.size() < 2 || plan_.parallel.pp != static_cast<std::int32_t>(layers.size())) return;
    keys_.add("--decoder-first-pipeline-num-layers", layers.front());
    keys_.add("--decoder-last-pipeline-num-layers", layers.back());
  }

  void write_batch() {
    keys_.add("--micro-batch-size", plan_.batch.micro_batch);
    keys_.add("--global-batch-size", plan_.batch.global_batch);
    keys_.add("--seq-length", plan_.batch.sequence);
    keys_.add("--max-position-embeddings", std::max(plan_.batch.sequence, model_.positions()));
    keys_.add("--clip-grad", plan_.clip ? 1.0 : 0.0);
    keys_.add("--lr", 1e-4);
    keys_.add("--train-iters", 10);
  }

  void write_codes(const KernelSet& set) {
    if (set.layer_products != LayerProducts::kFp8) return;
    const std::string_view codes = set.codes.name;
    if (codes == "nvfp4") return keys_.add("--fp4-format", "e2m1");
    keys_.add("--fp8-format", codes == "mxfp8" ? "e4m3" : "hybrid");
    if (codes != "fp8") keys_.add("--fp8-recipe", codes == "mxfp8" ? "mxfp8" : "blockwise");
  }

  void write_precision() {
    const KernelSet& set = find_kernel_set(plan_.kernel_set);
    flag("--bf16", set.compute == DType::kBf16);
    flag("--fp16", set.compute == DType::kF16);
    write_codes(set);
    const bool in_16_bits = set.compute != DType::kF32 && plan_.precision.grad != DType::kF32;
    flag("--grad-reduce-in-bf16", in_16_bits);
    keys_.add("--attention-dropout", plan_.dropout ? 0.1 : 0.0);
    keys_.add("--hidden-dropout", plan_.dropout ? 0.1 : 0.0);
    if (plan_.optimizer.kind == OptimizerKind::kSgdMomentum) keys_.add("--optimizer", "sgd");
    if (plan_.optimizer.kind == OptimizerKind::kMuon) keys_.add("--optimizer", "muon");
  }

  void write_sharding() {
    const std::int32_t stage = plan_.zero_stage;
    flag("--use-distributed-optimizer", stage >= 1);
    if (stage >= 2) {
      flag("--use-megatron-fsdp");
      keys_.add("--data-parallel-sharding-strategy",
                stage == 2 ? "optim_grads" : "optim_grads_params");
      keys_.add("--ckpt-format", "fsdp_dtensor");
    } else {
      flag("--overlap-grad-reduce", plan_.overlap.gradients);
      keys_.add("--ddp-bucket-size", unit_elements(plan_, model_));
      flag("--overlap-param-gather",
           stage == 1 && plan_.overlap.gradients && plan_.overlap.parameters);
    }
    if (plan_.parallel.shards > 0 && stage >= 1)
      keys_.add("--num-distributed-optimizer-instances", plan_.replicas() / plan_.parallel.shards);
  }

  void write_recomputation() {
    const RecomputeRun& first = plan_.recompute.front();
    if (plan_.all_full()) {
      keys_.add("--recompute-granularity", "full");
      keys_.add("--recompute-method", "uniform");
      keys_.add("--recompute-num-layers", plan_.checkpoint_layers);
    } else if (first.mode == Recompute::kFull) {
      keys_.add("--recompute-granularity", "full");
      keys_.add("--recompute-method", "block");
      keys_.add("--recompute-num-layers", first.layers);
    } else if (first.mode == Recompute::kSelective || first.mode == Recompute::kOperators) {
      keys_.add("--recompute-granularity", "selective");
      if (first.mode == Recompute::kOperators) write_modules(first.operators);
    }
    flag("--distribute-saved-activations", plan_.partition_activations);
  }

  void write_modules(OperatorSet operators) {
    std::string words;
    const auto add = [&](bool has, const char* word) {
      if (has) words += (words.empty() ? "\"" : ", \"") + std::string(word) + '"';
    };
    add(operators.has(LayerOperator::kAttention), "core_attn");
    add(operators.has(LayerOperator::kNorm), "layernorm");
    add(operators.has(LayerOperator::kExperts), "moe");
    add(operators.has(LayerOperator::kFc1) && operators.has(LayerOperator::kActivation), "mlp");
    if (!words.empty()) keys_.put("--recompute-modules", "[" + words + "]");
  }

  // Its optimizer on the CPU is a sharded Adam.
  void write_homes() {
    const bool is_adam = plan_.optimizer.kind == OptimizerKind::kAdamW;
    if (plan_.placement.optimizer == Tier::kGpu || plan_.zero_stage == 0 || !is_adam) return;
    flag("--optimizer-cpu-offload");
    flag("--use-precision-aware-optimizer");
    keys_.add("--optimizer-offload-fraction", 1 - plan_.placement.optimizer_near);
  }

  const Plan& plan_;
  const ModelConfig& model_;
  KeyList keys_;
};

}  // namespace

std::vector<KeyValue> megatron_keys(const Plan& plan, const ModelConfig& model) {
  return MegatronWriting(plan, model).write();
}

}  // namespace zplan
