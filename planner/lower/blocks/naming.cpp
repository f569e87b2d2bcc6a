#include "planner/lower/blocks/naming.h"

#include <fmt/format.h>

#include <cmath>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr int kFamilies = 2;  // in the order of Architecture: gpt, llama

struct Row {
  std::string_view tensor;
  std::string_view names[kFamilies];
};
constexpr Row kRows[] = {
    {"token", {"transformer.wte", "model.embed_tokens"}},
    {"position", {"transformer.wpe", "model.embed_positions"}},
    {"embedding_norm", {"transformer.ln_emb", "model.embed_norm"}},
    {"norm1", {"transformer.h.{}.ln_1", "model.layers.{}.input_layernorm"}},
    {"qkv", {"transformer.h.{}.attn.c_attn", "model.layers.{}.self_attn.qkv_proj"}},
    {"query_norm", {"transformer.h.{}.attn.q_norm", "model.layers.{}.self_attn.q_norm"}},
    {"key_norm", {"transformer.h.{}.attn.k_norm", "model.layers.{}.self_attn.k_norm"}},
    {"sinks", {"transformer.h.{}.attn.sinks", "model.layers.{}.self_attn.sinks"}},
    {"post_norm1", {"transformer.h.{}.ln_1_post", "model.layers.{}.attention_output_layernorm"}},
    {"post_norm2", {"transformer.h.{}.ln_2_post", "model.layers.{}.mlp_output_layernorm"}},
    // Of latent attention; Hugging Face has key_down and key_rope side by side.
    {"query_down", {"transformer.h.{}.attn.q_a", "model.layers.{}.self_attn.q_a_proj"}},
    {"query_latent_norm",
     {"transformer.h.{}.attn.q_a_ln", "model.layers.{}.self_attn.q_a_layernorm"}},
    {"query_up", {"transformer.h.{}.attn.q_b", "model.layers.{}.self_attn.q_b_proj"}},
    {"query", {"transformer.h.{}.attn.q", "model.layers.{}.self_attn.q_proj"}},
    {"key_down", {"transformer.h.{}.attn.kv_a", "model.layers.{}.self_attn.kv_a_proj"}},
    {"key_latent_norm",
     {"transformer.h.{}.attn.kv_a_ln", "model.layers.{}.self_attn.kv_a_layernorm"}},
    {"key_rope", {"transformer.h.{}.attn.k_rope", "model.layers.{}.self_attn.k_rope_proj"}},
    {"key_up", {"transformer.h.{}.attn.kv_b", "model.layers.{}.self_attn.kv_b_proj"}},
    {"index_query",
     {"transformer.h.{}.attn.indexer.wq_b", "model.layers.{}.self_attn.indexer.wq_b"}},
    {"index_key", {"transformer.h.{}.attn.indexer.wk", "model.layers.{}.self_attn.indexer.wk"}},
    {"index_norm",
     {"transformer.h.{}.attn.indexer.k_norm", "model.layers.{}.self_attn.indexer.k_norm"}},
    {"index_weights",
     {"transformer.h.{}.attn.indexer.weights_proj",
      "model.layers.{}.self_attn.indexer.weights_proj"}},
    {"attention_gate", {"transformer.h.{}.attn.gate", "model.layers.{}.self_attn.gate_proj"}},
    {"projection", {"transformer.h.{}.attn.c_proj", "model.layers.{}.self_attn.o_proj"}},
    {"cross_norm", {"transformer.h.{}.ln_cross_attn", "model.layers.{}.cross_attention_layernorm"}},
    {"cross_query", {"transformer.h.{}.crossattention.q", "model.layers.{}.cross_attn.q_proj"}},
    {"cross_key", {"transformer.h.{}.crossattention.k", "model.layers.{}.cross_attn.k_proj"}},
    {"cross_value", {"transformer.h.{}.crossattention.v", "model.layers.{}.cross_attn.v_proj"}},
    {"cross_projection",
     {"transformer.h.{}.crossattention.c_proj", "model.layers.{}.cross_attn.o_proj"}},
    // These are of mixers with a state.
    {"mamba_in", {"transformer.h.{}.mamba.in_proj", "model.layers.{}.mamba.in_proj"}},
    {"mamba_conv", {"transformer.h.{}.mamba.conv1d", "model.layers.{}.mamba.conv1d"}},
    {"mamba_dt_bias", {"transformer.h.{}.mamba.dt_bias", "model.layers.{}.mamba.dt_bias"}},
    {"mamba_a_log", {"transformer.h.{}.mamba.A_log", "model.layers.{}.mamba.A_log"}},
    {"mamba_d", {"transformer.h.{}.mamba.D", "model.layers.{}.mamba.D"}},
    {"mamba_norm", {"transformer.h.{}.mamba.norm", "model.layers.{}.mamba.norm"}},
    {"mamba_out", {"transformer.h.{}.mamba.out_proj", "model.layers.{}.mamba.out_proj"}},
    {"delta_in", {"transformer.h.{}.linear_attn.in_proj", "model.layers.{}.linear_attn.in_proj"}},
    {"delta_conv", {"transformer.h.{}.linear_attn.conv1d", "model.layers.{}.linear_attn.conv1d"}},
    {"delta_dt_bias",
     {"transformer.h.{}.linear_attn.dt_bias", "model.layers.{}.linear_attn.dt_bias"}},
    {"delta_a_log", {"transformer.h.{}.linear_attn.A_log", "model.layers.{}.linear_attn.A_log"}},
    {"delta_norm", {"transformer.h.{}.linear_attn.norm", "model.layers.{}.linear_attn.norm"}},
    {"delta_out",
     {"transformer.h.{}.linear_attn.out_proj", "model.layers.{}.linear_attn.out_proj"}},
    // These are of Kimi delta attention: queries, keys, values and b stand side by side in the
    // first.
    {"kda_in", {"transformer.h.{}.kda.in_proj", "model.layers.{}.self_attn.in_proj"}},
    {"kda_decay_down", {"transformer.h.{}.kda.f_a_proj", "model.layers.{}.self_attn.f_a_proj"}},
    {"kda_decay_up", {"transformer.h.{}.kda.f_b_proj", "model.layers.{}.self_attn.f_b_proj"}},
    {"kda_gate_down", {"transformer.h.{}.kda.g_a_proj", "model.layers.{}.self_attn.g_a_proj"}},
    {"kda_gate_up", {"transformer.h.{}.kda.g_b_proj", "model.layers.{}.self_attn.g_b_proj"}},
    {"kda_conv", {"transformer.h.{}.kda.conv1d", "model.layers.{}.self_attn.conv1d"}},
    {"kda_dt_bias", {"transformer.h.{}.kda.dt_bias", "model.layers.{}.self_attn.dt_bias"}},
    {"kda_a_log", {"transformer.h.{}.kda.A_log", "model.layers.{}.self_attn.A_log"}},
    {"kda_norm", {"transformer.h.{}.kda.o_norm", "model.layers.{}.self_attn.o_norm"}},
    {"kda_out", {"transformer.h.{}.kda.o_proj", "model.layers.{}.self_attn.o_proj"}},
    // These are of Mamba-1: Hugging Face has the three products of x_proj side by side.
    {"mamba1_in", {"transformer.h.{}.mamba.in_proj", "model.layers.{}.mamba.in_proj"}},
    {"mamba1_conv", {"transformer.h.{}.mamba.conv1d", "model.layers.{}.mamba.conv1d"}},
    {"mamba1_step_down", {"transformer.h.{}.mamba.x_proj_dt", "model.layers.{}.mamba.x_proj_dt"}},
    {"mamba1_input", {"transformer.h.{}.mamba.x_proj_b", "model.layers.{}.mamba.x_proj_b"}},
    {"mamba1_output", {"transformer.h.{}.mamba.x_proj_c", "model.layers.{}.mamba.x_proj_c"}},
    {"mamba1_step_norm",
     {"transformer.h.{}.mamba.dt_layernorm", "model.layers.{}.mamba.dt_layernorm"}},
    {"mamba1_input_norm",
     {"transformer.h.{}.mamba.b_layernorm", "model.layers.{}.mamba.b_layernorm"}},
    {"mamba1_output_norm",
     {"transformer.h.{}.mamba.c_layernorm", "model.layers.{}.mamba.c_layernorm"}},
    {"mamba1_step", {"transformer.h.{}.mamba.dt_proj", "model.layers.{}.mamba.dt_proj"}},
    {"mamba1_a_log", {"transformer.h.{}.mamba.A_log", "model.layers.{}.mamba.A_log"}},
    {"mamba1_d", {"transformer.h.{}.mamba.D", "model.layers.{}.mamba.D"}},
    {"mamba1_out", {"transformer.h.{}.mamba.out_proj", "model.layers.{}.mamba.out_proj"}},
    // These are of gated short convolutions.
    {"short_in", {"transformer.h.{}.conv.in_proj", "model.layers.{}.conv.in_proj"}},
    {"short_conv", {"transformer.h.{}.conv.conv", "model.layers.{}.conv.conv"}},
    {"short_out", {"transformer.h.{}.conv.out_proj", "model.layers.{}.conv.out_proj"}},
    {"norm2", {"transformer.h.{}.ln_2", "model.layers.{}.post_attention_layernorm"}},
    {"fc1", {"transformer.h.{}.mlp.c_fc", "model.layers.{}.mlp.gate_up_proj"}},
    {"fc2", {"transformer.h.{}.mlp.c_proj", "model.layers.{}.mlp.down_proj"}},
    {"router", {"transformer.h.{}.moe.router", "model.layers.{}.mlp.gate"}},
    {"experts_up",
     {"transformer.h.{}.moe.experts.c_fc", "model.layers.{}.mlp.experts.gate_up_proj"}},
    {"experts_down",
     {"transformer.h.{}.moe.experts.c_proj", "model.layers.{}.mlp.experts.down_proj"}},
    {"shared_fc1",
     {"transformer.h.{}.moe.shared.c_fc", "model.layers.{}.mlp.shared_experts.gate_up_proj"}},
    {"shared_fc2",
     {"transformer.h.{}.moe.shared.c_proj", "model.layers.{}.mlp.shared_experts.down_proj"}},
    {"shared_gate", {"transformer.h.{}.moe.shared.gate", "model.layers.{}.mlp.shared_expert_gate"}},
    {"latent_in", {"transformer.h.{}.moe.latent_in", "model.layers.{}.mlp.fc1_latent_proj"}},
    {"latent_out", {"transformer.h.{}.moe.latent_out", "model.layers.{}.mlp.fc2_latent_proj"}},
    {"encoder_position", {"transformer.encoder.wpe", "model.encoder.embed_positions"}},
    {"encoder_norm", {"transformer.encoder.ln_f", "model.encoder.norm"}},
    {"final_norm", {"transformer.ln_f", "model.norm"}},
    // These are names of modules of multi-token prediction, as DeepSeek publishes them.
    {"mtp_embedding_norm", {"transformer.h.{}.mtp.ln_e", "model.layers.{}.enorm"}},
    {"mtp_hidden_norm", {"transformer.h.{}.mtp.ln_h", "model.layers.{}.hnorm"}},
    {"mtp_projection", {"transformer.h.{}.mtp.proj", "model.layers.{}.eh_proj"}},
    {"mtp_final_norm", {"transformer.h.{}.mtp.ln_f", "model.layers.{}.shared_head.norm"}},
    {"head_dense", {"transformer.head.dense", "model.head.dense"}},
    {"head_norm", {"transformer.head.ln", "model.head.norm"}},
    {"head", {"lm_head", "lm_head"}},
    // These are of a vision tower, which has the names of its layers with "visual" before them.
    {"patch", {"", "model.patch_embed.proj"}},
    {"patch_position", {"", "model.pos_embed"}},
    {"patch_norm", {"", "model.patch_norm"}},
    {"projector", {"", "model.merger.{}"}},
};

// GPT-2 divides by sqrt(2 L) in the matrices that feed the residual stream [Radford19 sec 2.3].
constexpr double kInitStd = 0.02;
constexpr bool kScalesOutput[kFamilies] = {true, false};

}  // namespace

Naming::Naming(const ModelConfig& model) : family_(model.architecture), std_{kInitStd, kInitStd} {
  if (kScalesOutput[static_cast<std::size_t>(family_)])
    std_.output /= std::sqrt(2.0 * static_cast<double>(model.layers));
}

Naming Naming::of_tower(const ModelConfig& model, std::int64_t first_layer) {
  ModelConfig like = model;
  like.architecture = Architecture::kLlama;
  Naming own(like);
  own.tower_ = first_layer;
  return own;
}

// Names of tensors may hold "{-n}", which stands for the number of a layer less n.
std::string Naming::of(std::string_view tensor, std::string_view suffix) const {
  for (const Row& row : kRows) {
    if (row.tensor != tensor) continue;
    std::string name(row.names[static_cast<std::size_t>(family_)]);
    if (tower_) {
      constexpr std::string_view kModelPrefix = "model.";
      name.insert(kModelPrefix.size(), "visual.");
      if (const std::size_t at = name.find("layers.{}"); at != std::string::npos)
        name.replace(at, std::string_view("layers.{}").size(),
                     fmt::format("blocks.{{-{}}}", *tower_));
    }
    if (const std::size_t at = name.find("{}"); layer_ && at != std::string::npos)
      name.replace(at, 2, std::to_string(*layer_));
    return name.append(suffix);
  }
  ZPLAN_ASSERT(false);
}

}  // namespace zplan
