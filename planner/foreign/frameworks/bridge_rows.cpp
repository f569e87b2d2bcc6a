#include "planner/foreign/frameworks/bridge_rows.h"

#include <algorithm>
#include <string>

#include "planner/foreign/frameworks/bridge_fields.h"

namespace zplan {
namespace {

constexpr FieldRow kFields[] = {
    {"--num-layers", "model.num_layers"},
    {"--hidden-size", "model.hidden_size"},
    {"--ffn-hidden-size", "model.ffn_hidden_size"},
    {"--num-attention-heads", "model.num_attention_heads"},
    {"--num-query-groups", "model.num_query_groups"},
    {"--kv-channels", "model.kv_channels"},
    {"--window-size", "model.window_size"},
    {"--window-attn-skip-freq", "model.window_attn_skip_freq"},
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
    {"--moe-shared-expert-gate", "model.moe_shared_expert_gate"},
    {"--moe-latent-size", "model.moe_latent_size"},
    {"--moe-layer-freq", "model.moe_layer_freq"},
    {"--moe-router-score-function", "model.moe_router_score_function"},
    {"--moe-router-enable-expert-bias", "model.moe_router_enable_expert_bias"},
    {"--moe-router-pre-softmax", "model.moe_router_pre_softmax"},
    {"--moe-router-num-groups", "model.moe_router_num_groups"},
    {"--moe-router-group-topk", "model.moe_router_group_topk"},
    {"--moe-router-topk-scaling-factor", "model.moe_router_topk_scaling_factor"},
    {"--moe-grouped-gemm", "model.moe_grouped_gemm"},
    {"--moe-token-dispatcher-type", "model.moe_token_dispatcher_type"},
    {"--moe-flex-dispatcher-backend", "model.moe_flex_dispatcher_backend"},
    {"--moe-router-force-load-balancing", "model.moe_router_force_load_balancing"},
    {"--moe-aux-loss-coeff", "model.moe_aux_loss_coeff"},
    {"--moe-expert-capacity-factor", "model.moe_expert_capacity_factor"},
    {"--multi-latent-attention", "model.multi_latent_attention"},
    {"--q-lora-rank", "model.q_lora_rank"},
    {"--kv-lora-rank", "model.kv_lora_rank"},
    {"--qk-head-dim", "model.qk_head_dim"},
    {"--qk-pos-emb-head-dim", "model.qk_pos_emb_head_dim"},
    {"--v-head-dim", "model.v_head_dim"},
    {"--experimental-attention-variant", "model.experimental_attention_variant"},
    {"--dsa-indexer-n-heads", "model.dsa_indexer_n_heads"},
    {"--dsa-indexer-head-dim", "model.dsa_indexer_head_dim"},
    {"--dsa-indexer-topk", "model.dsa_indexer_topk"},
    {"--dsa-indexer-topk-freq", "model.dsa_indexer_topk_freq"},
    {"--mtp-num-layers", "model.mtp_num_layers"},
    {"--mtp-loss-scaling-factor", "model.mtp_loss_scaling_factor"},
    {"--mtp-use-repeated-layer", "model.mtp_use_repeated_layer"},
    {"--mtp-detach-heads", "model.mtp_detach_heads"},
    {"--mtp-hybrid-override-pattern", "model.mtp_hybrid_override_pattern"},
    {"--tensor-model-parallel-size", "model.tensor_model_parallel_size"},
    {"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
    {"--context-parallel-size", "model.context_parallel_size"},
    {"--cp-comm-type", "model.cp_comm_type"},
    {"--expert-model-parallel-size", "model.expert_model_parallel_size"},
    {"--expert-tensor-parallel-size", "model.expert_tensor_parallel_size"},
    {"--overlap-moe-expert-parallel-comm", "model.overlap_moe_expert_parallel_comm"},
    {"--delay-wgrad-compute", "model.delay_wgrad_compute"},
    {"--overlap-dispatch-backward-with-experts-wgrad",
     "model.overlap_dispatch_backward_with_experts_wgrad"},
    {"--moe-shared-expert-overlap", "model.moe_shared_expert_overlap"},
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
    {"--fp8-format", "mixed_precision.fp8", "model.fp8"},
    {"--fp8-recipe", "mixed_precision.fp8_recipe", "model.fp8_recipe"},
    {"--fp8-param-gather", "mixed_precision.fp8_param_gather", "ddp.fp8_param_gather"},
    {"--fp4-format", "mixed_precision.fp4", "model.fp4"},
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
    {"--main-params-dtype", "optimizer.main_params_dtype"},
    {"--main-grads-dtype", "optimizer.main_grads_dtype"},
    {"--exp-avg-dtype", "optimizer.exp_avg_dtype"},
    {"--exp-avg-sq-dtype", "optimizer.exp_avg_sq_dtype"},
    {"--optimizer-offload-fraction", "optimizer.optimizer_offload_fraction"},
    {"--cpu-offloading-num-layers", "model.cpu_offloading_num_layers"},
};

bool is_option_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

const FieldRow* bridge_row(std::string_view option) {
  const auto* const row = std::ranges::find(kFields, option, &FieldRow::option);
  return row == std::end(kFields) ? nullptr : row;
}

std::string bridge_field(std::string_view option) {
  const FieldRow* const row = bridge_row(option);
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
