// One reader for each `model_type`: features and sizes, but for what all files have (sequence,
// batch, name). The order of a reader: sizes, then windows, then positions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/foreign/hugging_face/config_keys.h"

namespace zplan {

// The greatest size that a file may say of a model.
inline constexpr std::int64_t kMostSize = 1 << 24;

using FamilyReader = void (*)(ConfigKeys& keys, ModelConfig& model);

// Those that are read, the common ones first.
std::vector<std::string> family_types();

// Of a type that is not read: null.
FamilyReader family_reader(std::string_view model_type);

// Why a type that is known is not read; empty: it is, or is not known.
std::string_view refused_family(std::string_view model_type);

// Layer sizes under the names that most families have, and the activation.
void read_sizes(ConfigKeys& keys, ModelConfig& model);
void read_activation(ConfigKeys& keys, ModelConfig& model);
void read_epsilon(ConfigKeys& keys, ModelConfig& model);
// The word for what a model has: `usual`, which its class has, where that means the same.
std::string activation_word(const ModelConfig& model, const std::string& usual);
// The activation, of which some have two names, by one of them.
Activation plain_activation(const ModelConfig& model);
// Norms, positions and gated MLP of Llama; key-value heads and the size of heads; biases, where the
// file says that there are some.
void read_llama_layers(ConfigKeys& keys, ModelConfig& model);

// Factors of embeddings, scores, branches and logits.
void read_factors(ConfigKeys& keys, ModelConfig& model);

// Of those whose layers are nearly Llama's.
void read_olmo(ConfigKeys& keys, ModelConfig& model);
void read_olmo2(ConfigKeys& keys, ModelConfig& model);
void read_olmo3(ConfigKeys& keys, ModelConfig& model);
void read_smollm3(ConfigKeys& keys, ModelConfig& model);
void read_exaone4(ConfigKeys& keys, ModelConfig& model);
void read_granite(ConfigKeys& keys, ModelConfig& model);
void read_cohere(ConfigKeys& keys, ModelConfig& model);
void read_cohere2(ConfigKeys& keys, ModelConfig& model);
void read_stablelm(ConfigKeys& keys, ModelConfig& model);
void read_starcoder2(ConfigKeys& keys, ModelConfig& model);
void read_phi(ConfigKeys& keys, ModelConfig& model);
void read_glm(ConfigKeys& keys, ModelConfig& model);
void read_glm4(ConfigKeys& keys, ModelConfig& model);
void read_seed_oss(ConfigKeys& keys, ModelConfig& model);
void read_arcee(ConfigKeys& keys, ModelConfig& model);
void read_nemotron(ConfigKeys& keys, ModelConfig& model);
void read_helium(ConfigKeys& keys, ModelConfig& model);
void read_ernie4_5(ConfigKeys& keys, ModelConfig& model);
void read_cwm(ConfigKeys& keys, ModelConfig& model);
void read_modernbert(ConfigKeys& keys, ModelConfig& model);

// Of those with experts.
void read_mixtral(ConfigKeys& keys, ModelConfig& model);
void read_qwen3_moe(ConfigKeys& keys, ModelConfig& model);
void read_gpt_oss(ConfigKeys& keys, ModelConfig& model);
void read_deepseek_v2(ConfigKeys& keys, ModelConfig& model);
void read_deepseek_v3(ConfigKeys& keys, ModelConfig& model);
void read_llama4_text(ConfigKeys& keys, ModelConfig& model);

// Of those that are not of Llama's kind.
void read_gpt2(ConfigKeys& keys, ModelConfig& model);
void read_opt(ConfigKeys& keys, ModelConfig& model);
void read_gpt_neox(ConfigKeys& keys, ModelConfig& model);
void read_bloom(ConfigKeys& keys, ModelConfig& model);
void read_falcon(ConfigKeys& keys, ModelConfig& model);
void read_gpt_bigcode(ConfigKeys& keys, ModelConfig& model);
void read_mpt(ConfigKeys& keys, ModelConfig& model);
void read_bert(ConfigKeys& keys, ModelConfig& model);
void read_t5(ConfigKeys& keys, ModelConfig& model);

}  // namespace zplan
