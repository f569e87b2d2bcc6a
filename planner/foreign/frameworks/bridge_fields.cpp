#include "planner/foreign/frameworks/bridge_fields.h"

#include <algorithm>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/json_edit.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/key_list.h"
#include "planner/foreign/frameworks/layer_pattern.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

struct FieldRow {
  std::string_view option, field;
  std::string_view also = {};  // the same in another section: a switch is on where either is
  bool is_opposite = false;    // a switch that is on where the field is false
};

constexpr FieldRow kFields[] = {
    {"--num-layers", "model.num_layers"},
    {"--hidden-size", "model.hidden_size"},
    {"--ffn-hidden-size", "model.ffn_hidden_size"},
    {"--num-attention-heads", "model.num_attention_heads"},
    {"--num-query-groups", "model.num_query_groups"},
    {"--kv-channels", "model.kv_channels"},
    {"--swiglu", "model.gated_linear_unit"},
    {"--normalization", "model.normalization"},
    {"--norm-epsilon", "model.layernorm_epsilon"},
    {"--disable-bias-linear", "model.add_bias_linear", {}, true},
    {"--add-qkv-bias", "model.add_qkv_bias"},
    {"--qk-layernorm", "model.qk_layernorm"},
    {"--position-embedding-type", "model.position_embedding_type"},
    {"--rotary-base", "model.rotary_base"},
    {"--rotary-percent", "model.rotary_percent"},
    {"--untie-embeddings-and-output-weights",
     "model.share_embeddings_and_output_weights",
     {},
     true},
    {"--vocab-size", "model.vocab_size", "tokenizer.vocab_size"},
    {"--tokenizer-type", "tokenizer.tokenizer_type"},
    {"--num-experts", "model.num_moe_experts"},
    {"--moe-router-topk", "model.moe_router_topk"},
    {"--moe-ffn-hidden-size", "model.moe_ffn_hidden_size"},
    {"--moe-shared-expert-intermediate-size", "model.moe_shared_expert_intermediate_size"},
    {"--moe-layer-freq", "model.moe_layer_freq"},
    {"--moe-router-score-function", "model.moe_router_score_function"},
    {"--moe-router-enable-expert-bias", "model.moe_router_enable_expert_bias"},
    {"--moe-router-pre-softmax", "model.moe_router_pre_softmax"},
    {"--moe-router-num-groups", "model.moe_router_num_groups"},
    {"--moe-router-group-topk", "model.moe_router_group_topk"},
    {"--moe-router-topk-scaling-factor", "model.moe_router_topk_scaling_factor"},
    {"--moe-grouped-gemm", "model.moe_grouped_gemm"},
    {"--moe-token-dispatcher-type", "model.moe_token_dispatcher_type"},
    {"--moe-aux-loss-coeff", "model.moe_aux_loss_coeff"},
    {"--moe-expert-capacity-factor", "model.moe_expert_capacity_factor"},
    {"--multi-latent-attention", "model.multi_latent_attention"},
    {"--q-lora-rank", "model.q_lora_rank"},
    {"--kv-lora-rank", "model.kv_lora_rank"},
    {"--qk-head-dim", "model.qk_head_dim"},
    {"--qk-pos-emb-head-dim", "model.qk_pos_emb_head_dim"},
    {"--v-head-dim", "model.v_head_dim"},
    {"--mtp-num-layers", "model.mtp_num_layers"},
    {"--tensor-model-parallel-size", "model.tensor_model_parallel_size"},
    {"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
    {"--context-parallel-size", "model.context_parallel_size"},
    {"--cp-comm-type", "model.cp_comm_type"},
    {"--expert-model-parallel-size", "model.expert_model_parallel_size"},
    {"--expert-tensor-parallel-size", "model.expert_tensor_parallel_size"},
    {"--sequence-parallel", "model.sequence_parallel"},
    {"--num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size"},
    {"--decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage"},
    {"--decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage"},
    {"--pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout"},
    {"--use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping"},
    {"--cuda-graph-impl", "model.cuda_graph_impl"},
    {"--micro-batch-size", "train.micro_batch_size"},
    {"--global-batch-size", "train.global_batch_size"},
    {"--train-iters", "train.train_iters"},
    {"--seq-length", "model.seq_length", "dataset.seq_length"},
    {"--clip-grad", "optimizer.clip_grad"},
    {"--lr", "optimizer.lr"},
    {"--optimizer", "optimizer.optimizer"},
    {"--bf16", "mixed_precision.bf16", "model.bf16"},
    {"--fp16", "mixed_precision.fp16", "model.fp16"},
    {"--fp8-format", "mixed_precision.fp8"},
    {"--grad-reduce-in-bf16", "mixed_precision.grad_reduce_in_fp32", "ddp.grad_reduce_in_fp32",
     true},
    {"--attention-dropout", "model.attention_dropout"},
    {"--hidden-dropout", "model.hidden_dropout"},
    {"--use-distributed-optimizer", "ddp.use_distributed_optimizer",
     "optimizer.use_distributed_optimizer"},
    {"--use-megatron-fsdp", "ddp.use_megatron_fsdp", "dist.use_megatron_fsdp"},
    {"--use-torch-fsdp2", "dist.use_torch_fsdp2"},
    {"--data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy"},
    {"--ckpt-format", "checkpoint.ckpt_format"},
    {"--overlap-grad-reduce", "ddp.overlap_grad_reduce"},
    {"--overlap-param-gather", "ddp.overlap_param_gather"},
    {"--ddp-bucket-size", "ddp.bucket_size"},
    {"--num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances"},
    {"--recompute-granularity", "model.recompute_granularity"},
    {"--recompute-method", "model.recompute_method"},
    {"--recompute-num-layers", "model.recompute_num_layers"},
    {"--recompute-modules", "model.recompute_modules"},
    {"--distribute-saved-activations", "model.distribute_saved_activations"},
    {"--optimizer-cpu-offload", "optimizer.optimizer_cpu_offload"},
    {"--use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer"},
    {"--optimizer-offload-fraction", "optimizer.optimizer_offload_fraction"},
    {"--cpu-offloading-num-layers", "model.cpu_offloading_num_layers"},
};

const FieldRow* row_of(std::string_view option) {
  const auto* const row = std::ranges::find(kFields, option, &FieldRow::option);
  return row == std::end(kFields) ? nullptr : row;
}

JsonNode switched(bool on) { return parse_json(on ? "true" : "false", "field"); }

// A recipe of mixed precision is named, or its fields are given.
std::optional<JsonNode> named_precision(const JsonNode& root, std::string_view option) {
  const auto recipe = find_key(root, "mixed_precision");
  if (!recipe || !recipe->is_string()) return std::nullopt;
  const std::string name = recipe->string();
  const auto says = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  if (option == "--bf16") return switched(says("bf16"));
  if (option == "--fp16") return switched(says("fp16"));
  if (option == "--grad-reduce-in-bf16") return switched(!says("bf16"));
  if (option == "--fp8-format" && says("fp8")) return parse_json("\"hybrid\"", "field");
  return std::nullopt;
}

// "silu", or a saved configuration's {"_target_": "torch.nn.functional.silu"}.
bool is_squared_relu(const JsonNode& root) {
  auto function = find_key(root, "model.activation_func");
  if (function && function->is_object()) function = find_key(*function, "_target_");
  return function && function->is_string() && function->string().ends_with("squared_relu");
}

std::optional<JsonNode> written_field(const JsonNode& root, std::string_view field) {
  if (field.empty()) return std::nullopt;
  auto node = find_key(root, field);
  return node && !node->is_null() ? node : std::nullopt;
}

bool is_on(const JsonNode& node) { return node.is_boolean() && node.boolean(); }

// Of its fields the first that is given; of a switch one that is on.
std::optional<JsonNode> given(const JsonNode& root, const FieldRow& row) {
  auto first = written_field(root, row.field), second = written_field(root, row.also);
  const bool counts = second && (!first || (!row.is_opposite && is_on(*second)));
  return counts ? second : first;
}

// A section that is left out has no say.
const JsonNode& usual(const JsonNode& root, const KeyTable& table, const FieldRow& row) {
  const std::string_view section = row.field.substr(0, row.field.find('.'));
  return table.usual(row.also.empty() || find_key(root, section) ? row.field : row.also);
}

std::vector<std::string> fields_of(const FieldRow& row) {
  std::vector<std::string> out{std::string(row.field)};
  if (!row.also.empty()) out.emplace_back(row.also);
  return out;
}

std::string in_one_line(const JsonNode& list) {
  std::string out;
  for (const JsonNode& item : list.items()) out += (out.empty() ? "" : ", ") + json_text(item);
  return "[" + out + "]";
}

// ([0]*3+[1]*58) as a list.
std::string layer_list(const std::string& value) {
  const JsonNode node = parse_json(value, "option");
  if (!node.is_string()) return value;
  const auto layers = layer_pattern(node.string(), kMaxLayers);
  ZPLAN_ASSERT(layers);
  std::string out;
  for (const bool has_experts : *layers)
    out += (out.empty() ? "" : ", ") + std::string(has_experts ? "1" : "0");
  return "[" + out + "]";
}

class FieldWriting {
 public:
  explicit FieldWriting(const std::vector<KeyValue>& options) : options_(options) {}

  std::vector<KeyValue> write() {
    for (const KeyValue& option : options_)
      if (const FieldRow* const row = row_of(option.key)) add(*row, option);
    if (has("--swiglu")) keys_.add("model.activation_func", "silu");
    if (has("--cuda-graph-impl")) keys_.add("model.use_te_rng_tracker", true);
    add_types();
    return std::move(keys_).keys();
  }

 private:
  bool has(std::string_view option) const {
    return std::ranges::find(options_, option, &KeyValue::key) != options_.end();
  }

  void add(const FieldRow& row, const KeyValue& option) {
    std::string value = row.is_opposite ? "false" : option.value;
    if (option.key == "--moe-layer-freq") value = layer_list(value);
    for (const std::string& field : fields_of(row)) keys_.put(field, value);
  }

  // What Megatron-LM concludes from its switches.
  void add_types() {
    const bool bf16 = has("--bf16"), fp16 = has("--fp16");
    const std::string_view type = bf16   ? "torch.bfloat16"
                                  : fp16 ? "torch.float16"
                                         : "torch.float32";
    keys_.add("mixed_precision.params_dtype", type);
    keys_.add("mixed_precision.pipeline_dtype", type);
    if (!bf16 && !fp16) keys_.add("mixed_precision.fp32", true);
    if (has("--grad-reduce-in-bf16")) return;
    keys_.add("mixed_precision.grad_reduce_in_fp32", true);
    keys_.add("ddp.grad_reduce_in_fp32", true);
  }

  const std::vector<KeyValue>& options_;
  KeyList keys_;
};

bool is_option_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

std::optional<JsonNode> bridge_option(const JsonNode& root, const KeyTable& table,
                                      std::string_view option) {
  if (auto named = named_precision(root, option)) return named;
  if (option == "--group-query-attention")
    return switched(written_field(root, "model.num_query_groups").has_value());
  if (option == "--squared-relu") return switched(is_squared_relu(root));
  const FieldRow* const row = row_of(option);
  if (row == nullptr) return std::nullopt;
  const auto written = given(root, *row);
  const JsonNode value = written ? *written : usual(root, table, *row);
  if (value.is_null()) return std::nullopt;
  if (row->is_opposite) return switched(!value.boolean());
  if (option == "--moe-layer-freq" && value.is_array())
    return parse_json(json_string(in_one_line(value)), "field");
  return value;
}

std::vector<KeyValue> bridge_fields(const std::vector<KeyValue>& options) {
  return FieldWriting(options).write();
}

std::string bridge_field(std::string_view option) {
  const FieldRow* const row = row_of(option);
  return row == nullptr ? std::string() : std::string(row->field);
}

std::string in_bridge_fields(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find("--"), text.size());
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    const auto* const end = std::ranges::find_if_not(text, is_option_letter);
    const std::string_view option = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    const std::string field = bridge_field(option);
    out += field.empty() ? option : std::string_view(field);
    text.remove_prefix(option.size());
  }
  return out;
}

}  // namespace zplan
