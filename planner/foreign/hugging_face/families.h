// Each `model_type` has a row. Its reader gives features and sizes, but for what all files have
// (sequence, batch, name). A reader takes sizes first, then windows, then positions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/foreign/hugging_face/config_keys.h"

namespace zplan {

// The greatest size that a file may say of a model.
inline constexpr std::int64_t kMostSize = 1 << 24;

using FamilyReader = void (*)(ConfigKeys& keys, ModelConfig& model);

struct Family {
  std::string_view type;
  std::string_view layer;  // what transformers calls one (`_no_split_modules` of its class)
  FamilyReader read;
  std::string_view like{};  // another type, whose layers are the same and whose name is written
};
// These are the families of Llama's kind, the common ones and others, with a mixture of experts,
// with mixers of a state, and the rest; each table stands with its readers. A further one is a row
// there and, made by tests/frameworks/hugging_face_defaults.py, one of defaults.json.
std::span<const Family> llama_families();
std::span<const Family> expert_families();
std::span<const Family> other_families();
std::span<const Family> dense_families();
std::span<const Family> hybrid_families();

// Of a type that is not read: null.
const Family* find_family(std::string_view model_type);
std::vector<std::string> family_types();

// Why a type that is known is not read; empty: it is, or is not known.
std::string_view refused_family(std::string_view model_type);

// Layer sizes under the names that most families have, and the activation.
void read_sizes(ConfigKeys& keys, ModelConfig& model);
void read_activation(ConfigKeys& keys, ModelConfig& model);
void read_epsilon(ConfigKeys& keys, ModelConfig& model);
// The word for what a model has: `usual`, which its class has, where that means the same.
std::string activation_word(const ModelConfig& model, const std::string& usual);
// Says of layers that predict further tokens that they are left out.
void note_further_layers(ConfigKeys& keys);
// The activation, of which some have two names, by one of them.
Activation plain_activation(const ModelConfig& model);
// Norms, positions and gated MLP of Llama; key-value heads and the size of heads.
void read_llama_sizes(ConfigKeys& keys, ModelConfig& model);
// The same, with biases as the file has them.
void read_llama_layers(ConfigKeys& keys, ModelConfig& model);

// Latent attention in the place of the heads of Llama's.
void read_latent(ConfigKeys& keys, ModelConfig& model);
// A bias that choices alone follow.
void add_choice_bias(ConfigKeys& keys, ExpertShape& experts);

// Factors of embeddings, scores, branches and logits.
void read_factors(ConfigKeys& keys, ModelConfig& model);

}  // namespace zplan
