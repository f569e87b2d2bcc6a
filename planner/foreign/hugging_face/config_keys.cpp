#include "planner/foreign/hugging_face/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace zplan {
namespace {

// Of files, tokens, generation and initial values: nothing of a model's shape.
constexpr std::string_view kSayNothing[] = {
    "_attn_implementation",
    "_name_or_path",
    "architectures",
    "num_logits_to_keep",
    "use_mamba_kernels",
    "attn_implementation",
    "attention_probs_dropout_prob",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "ep_size",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "label2id",
    "layerdrop",
    "model_type",
    "output_past",
    "output_router_logits",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "qk_head_dim",
    "reorder_and_upcast_attn",
    "return_dict",
    "rope_interleave",
    "router_jitter_noise",
    "slow_but_exact",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "auto_map",
    "quantization_config",
    "cache_implementation",
    "resid_pdrop",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "masked_softmax_fusion",
    "attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "unk_token_id",
    "offset_alibi",
    "hidden_dropout",
    "hidden_dropout_prob",
    "attention_dropout",
    "attn_pdrop",
    "dropout",
    "dropout_rate",
    "activation_dropout",
    "_commit_hash",
    "audio_token_id",
    "audio_token_index",
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "generation_config",
    "image_token_id",
    "image_token_index",
    "im_end_token_id",
    "im_start_token_id",
    "is_composition",
    "keys_to_ignore_at_inference",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "mm_tokens_per_image",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "top_k",
    "top_p",
    "torchscript",
    "typical_p",
    "use_bfloat16",
    "use_return_dict",
    "video_token_id",
    "video_token_index",
    "vision_end_token_id",
    "vision_start_token_id",
    "vision_token_id",
    "vision_config",
    "audio_config",
    "text_config",
    "projector_hidden_act",
    "vision_feature_layer",
    "vision_feature_select_strategy",
    "boi_token_index",
    "eoi_token_index",
    "image_seq_length",
    "multimodal_projector_bias",
    "image_grid_pinpoints",
    "spatial_merge_size",
    "tokenizer_model_max_length",
    "use_flash_attn",
    "attn_impl",
    "init_device",
    "encoder_layerdrop",
    "decoder_layerdrop",
};

bool says_nothing(std::string_view key) {
  return std::find(std::begin(kSayNothing), std::end(kSayNothing), key) != std::end(kSayNothing);
}

// The first spelling that is not null.
struct Found {
  bool is_there = false;
  std::optional<JsonNode> node;
};
Found first_of(JsonObject& object, ConfigKeys::Spellings keys) {
  Found found;
  for (const std::string_view key : keys) {
    auto node = object.optional_member(key);
    if (!node) continue;
    found.is_there = true;
    if (!node->is_null()) return {true, std::move(node)};
  }
  return found;
}

}  // namespace

std::int64_t whole_number(const JsonNode& node, std::int64_t min, std::int64_t max) {
  const double value = node.number(static_cast<double>(min), static_cast<double>(max));
  if (value != std::floor(value))
    node.fail_expected(fmt::format("an integer from {} to {}", min, max));
  return static_cast<std::int64_t>(value);
}

ConfigKeys::ConfigKeys(JsonObject config, JsonObject defaults, JsonObject whole)
    : config_(std::move(config)), defaults_(std::move(defaults)), whole_(std::move(whole)) {}

std::optional<JsonNode> ConfigKeys::stated(Spellings keys) {
  asked_.insert(asked_.end(), keys.begin(), keys.end());
  return first_of(config_, keys).node;
}

std::optional<JsonNode> ConfigKeys::find(Spellings keys) {
  asked_.insert(asked_.end(), keys.begin(), keys.end());
  const Found in_file = first_of(config_, keys);
  if (in_file.is_there) return in_file.node;
  if (*keys.begin() == *spelt::kTied.begin())
    if (const Found beside = first_of(whole_, keys); beside.node) return beside.node;
  return first_of(defaults_, keys).node;
}

JsonNode ConfigKeys::must(Spellings keys) {
  if (auto node = find(keys)) return *node;
  config_.node().fail(fmt::format("expected a key \"{}\", which has no default", *keys.begin()));
}

std::int64_t ConfigKeys::whole(Spellings keys, std::int64_t max) {
  return whole_number(must(keys), 1, max);
}

std::int64_t ConfigKeys::whole_or(Spellings keys, std::int64_t max, std::int64_t otherwise) {
  const auto node = find(keys);
  return node ? whole_number(*node, 0, max) : otherwise;
}

double ConfigKeys::number_or(Spellings keys, double min, double max, double otherwise) {
  const auto node = find(keys);
  return node ? node->number(min, max) : otherwise;
}

bool ConfigKeys::flag(Spellings keys, bool otherwise) {
  const auto node = find(keys);
  return node ? node->boolean() : otherwise;
}

std::string ConfigKeys::word(Spellings keys) { return must(keys).non_empty_string(); }

void ConfigKeys::demand(Spellings keys, bool value, bool otherwise, std::string_view why) {
  const auto node = find(keys);
  if ((node ? node->boolean() : otherwise) == value) return;
  node->fail(fmt::format("expected {}: {}, got {}", value, why, !value));
}

void ConfigKeys::note(std::string sentence) { notes_.push_back(std::move(sentence)); }

std::vector<std::string> ConfigKeys::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : config_.node().members()) {
    const bool asked = std::find(asked_.begin(), asked_.end(), key) != asked_.end();
    const bool off = value.is_null() || (value.is_boolean() && !value.boolean());
    if (!asked && !off && !says_nothing(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace zplan
