// Families whose layers are those of GPT-2 or of its forerunners.
#include <fmt/format.h>

#include <string>

#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/positions.h"
#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {
namespace {

constexpr std::int64_t kUsualWidth = 4;  // of the MLP, in hidden sizes

// Learned, so that there are as many as the file says.
void read_learned(ConfigKeys& keys, ModelConfig& model) {
  model.sequence = keys.whole(spelt::kLearned, kMostSize);
}

void read_gpt2(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kGpt);
  read_sizes(keys, model);
  model.ffn = keys.whole_or(spelt::kInner, kMostSize, kUsualWidth * model.hidden);
  read_activation(keys, model);
  read_learned(keys, model);
  keys.find({"n_ctx"});
  keys.demand({"scale_attn_weights"}, true, true,
              "scores are divided by the root of a head's size");
  keys.demand({"scale_attn_by_inverse_layer_idx"}, false, false, "all layers scale scores alike");
  keys.demand({"add_cross_attention"}, false, false, "layers attend to their own tokens");
}

void read_opt(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kOffset = 2;  // rows before the first token's [Zhang22]
  set_architecture(model, Architecture::kGpt);
  read_sizes(keys, model);
  model.ffn = keys.whole(spelt::kOptWidth, kMostSize);
  read_activation(keys, model);
  read_learned(keys, model);
  model.layer.unused_positions = kOffset;
  keys.demand({"do_layer_norm_before"}, true, true, "norms stand before the branches");
  keys.demand({"enable_bias"}, true, true, "linear layers have biases");
  keys.demand({"layer_norm_elementwise_affine"}, true, true, "norms have gains and biases");
  keys.demand({"_remove_final_layer_norm"}, false, false, "a norm stands behind the layers");
  const auto width = keys.find({"word_embed_proj_dim"});
  if (width && whole_number(*width, 1, kMostSize) != model.hidden)
    width->fail_expected(
        fmt::format("the hidden size, {}: embeddings are not projected", model.hidden));
}

void read_gpt_neox(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kGpt);
  read_sizes(keys, model);
  model.ffn = keys.whole(spelt::kWidth, kMostSize);
  read_activation(keys, model);
  keys.demand(spelt::kAttentionBias, true, true, "linear layers have biases");
  keys.find({"is_decoder"});
  if (keys.flag(spelt::kParallelResidual, true))
    model.layer.parallel_residual = ParallelResidual::kTwoNorms;
  read_rotary(keys, model);
}

void read_bloom(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kGpt);
  read_sizes(keys, model);
  model.position = Position::kAlibi;
  model.layer.embedding_norm = true;
  model.ffn = keys.whole_or(spelt::kInner, kMostSize, kUsualWidth * model.hidden);
  keys.demand({"apply_residual_connection_post_layernorm"}, false, false,
              "a branch is added to what its norm reads");
}

void read_gpt_bigcode(ConfigKeys& keys, ModelConfig& model) {
  read_gpt2(keys, model);
  if (keys.flag(spelt::kMultiQuery, true)) model.kv_heads = 1;
  for (const char* key : {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
                          "runner_max_sequence_length"})
    keys.find({key});
}

// The earlier layers have one norm for both branches and one head of keys, the later ones a norm
// for each branch and some heads.
void read_falcon(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kGpt);
  read_sizes(keys, model);
  const bool later = keys.flag({"new_decoder_architecture"}, false);
  const std::int64_t groups = keys.whole_or(spelt::kFalconGroups, kMostSize, model.heads);
  const bool one_group = keys.flag(spelt::kMultiQuery, true);
  model.kv_heads = later ? groups : one_group ? 1 : model.heads;
  model.ffn = keys.whole_or({"ffn_hidden_size"}, kMostSize, kUsualWidth * model.hidden);
  model.biases = keys.flag({"bias"}, false) ? Biases::kAll : Biases::kNone;
  if (const auto word = keys.find({"activation"})) word->one_of({"gelu"});
  model.layer.activation = Activation::kGelu;
  const std::int64_t norms = keys.whole_or({"num_ln_in_parallel_attn"}, 2, later ? 2 : 1);
  if (later || keys.flag({"parallel_attn"}, true))
    model.layer.parallel_residual =
        later && norms == 2 ? ParallelResidual::kTwoNorms : ParallelResidual::kOneNorm;
  keys.demand({"alibi"}, false, false,
              "positions are rotary: its slopes are divided as scores are");
  keys.find({"apply_residual_connection_post_layernorm"});
  read_rotary(keys, model);
}

void read_mpt(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kGpt);
  model.layers = keys.whole({"n_layers"}, kMostSize);
  model.hidden = keys.whole(spelt::kT5Hidden, kMostSize);
  model.heads = model.kv_heads = keys.whole({"n_heads"}, kMostSize);
  model.vocab = keys.whole(spelt::kVocabulary, kMostSize);
  model.tied_embeddings = keys.flag(spelt::kTied, true);
  read_epsilon(keys, model);
  model.ffn = kUsualWidth * model.hidden;
  model.norm = Norm::kLayerNormNoBias;
  model.biases = Biases::kNone;
  model.position = Position::kAlibi;
  model.layer.activation = Activation::kGelu;
  keys.demand({"no_bias"}, true, true, "neither linear layers nor norms have biases");
  if (const auto scale = keys.find(spelt::kLogitScale)) scale->fail("expected no logit_scale");
  if (const auto attention = keys.stated({"attn_config"})) {
    JsonObject own = attention->object();
    if (const auto clip = own.optional_member("clip_qkv"); clip && !clip->is_null())
      clip->fail("expected queries, keys and values that are not clipped, got clip_qkv");
  }
}

void read_bert(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kGpt);
  read_sizes(keys, model);
  model.ffn = keys.whole(spelt::kWidth, kMostSize);
  read_activation(keys, model);
  read_learned(keys, model);
  LayerFeatures& layer = model.layer;
  layer.bidirectional = layer.residual_of_norm = layer.head_transform = true;
  layer.segments = keys.whole(spelt::kSegments, kMostSize);
  keys.demand({"is_decoder"}, false, false, "a query sees all tokens");
  keys.demand({"add_cross_attention"}, false, false, "layers attend to their own tokens");
  if (const auto kind = keys.stated({"position_embedding_type"})) kind->one_of({"absolute"});
  keys.note("its head is that of masked tokens; a pooler and what reads it are left out");
}

// The first ones of the positions stand for padding and what is before it.
void read_roberta(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kUsualPadding = 1;
  read_bert(keys, model);
  const auto padding = keys.stated({"pad_token_id"});
  const std::int64_t unused = 1 + (padding ? whole_number(*padding, 0, kMostSize) : kUsualPadding);
  if (model.sequence <= unused)
    keys.must(spelt::kLearned).fail_expected(fmt::format("more than {} positions", unused));
  model.layer.unused_positions = unused;
  model.sequence -= unused;
}

void read_t5(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kUsualTokens = 512;  // [Raffel20 sec 3.1.2]
  set_architecture(model, Architecture::kLlama);
  model.encoder_layers = keys.whole(spelt::kEncoderLayers, kMostSize);
  model.layers =
      model.encoder_layers + keys.whole_or(spelt::kDecoderLayers, kMostSize, model.encoder_layers);
  model.hidden = keys.whole(spelt::kT5Hidden, kMostSize);
  model.heads = model.kv_heads = keys.whole(spelt::kT5Heads, kMostSize);
  const std::int64_t size = keys.whole(spelt::kT5HeadSize, kMostSize);
  if (size * model.heads != model.hidden) model.own_head_size = size;
  model.ffn = keys.whole(spelt::kT5Width, kMostSize);
  model.vocab = keys.whole(spelt::kVocabulary, kMostSize);
  // transformers 5 says of a file that its embeddings are tied, and apart whether logits are
  // scaled.
  model.tied_embeddings = keys.flag(spelt::kTied, true);
  model.tied_embeddings = keys.flag({"scale_decoder_outputs"}, model.tied_embeddings);
  read_epsilon(keys, model);
  model.position = Position::kNone;
  const std::string mlp = keys.must(spelt::kT5Mlp).one_of({spelt::kPlainMlp, spelt::kGatedMlp});
  model.gated_mlp = mlp == spelt::kGatedMlp;
  LayerFeatures& layer = model.layer;
  layer.activation = model.gated_mlp ? Activation::kGeluTanh : Activation::kRelu;
  layer.scaled_logits = model.tied_embeddings;
  layer.attention_divisor = 1;
  layer.relative_buckets = keys.whole(spelt::kBuckets, kMostSize);
  layer.relative_distance = keys.whole(spelt::kDistance, kMostSize);
  keys.find({"dense_act_fn"});
  keys.find({"is_gated_act"});
  keys.find({"is_encoder_decoder"});
  keys.find({"is_decoder"});
  if (!keys.stated({"n_positions"})) model.sequence = kUsualTokens;
}

void read_blenderbot(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kGpt);
  model.encoder_layers = keys.whole({"encoder_layers"}, kMostSize);
  model.layers = model.encoder_layers + keys.whole({"decoder_layers"}, kMostSize);
  model.hidden = keys.whole(spelt::kT5Hidden, kMostSize);
  // The two stacks have the same heads and widths.
  const auto of_both = [&](const Names& encoder, const Names& decoder) {
    const std::int64_t size = keys.whole(encoder, kMostSize);
    if (keys.whole(decoder, kMostSize) != size)
      keys.must(decoder).fail_expected(fmt::format("{}, as in the encoder", size));
    return size;
  };
  model.heads = model.kv_heads = of_both({"encoder_attention_heads"}, {"decoder_attention_heads"});
  model.ffn = of_both({"encoder_ffn_dim"}, {"decoder_ffn_dim"});
  model.vocab = keys.whole(spelt::kVocabulary, kMostSize);
  model.tied_embeddings = keys.flag(spelt::kTied, true);
  read_activation(keys, model);
  read_learned(keys, model);
  model.layer.scaled_embedding = keys.flag({"scale_embedding"}, false);
  keys.demand({"normalize_before"}, true, true, "norms stand before the branches");
  keys.demand({"add_final_layer_norm"}, true, true, "a norm stands behind the layers");
  keys.demand({"normalize_embedding"}, false, false, "no norm stands behind the embeddings");
  keys.demand({"static_position_embeddings"}, false, false, "positions are learned");
  for (const char* key : {"num_hidden_layers", "is_encoder_decoder", "is_decoder",
                          "layernorm_variant", "extra_pos_embeddings"})
    keys.find({key});
}

constexpr Family kOtherFamilies[] = {
    {"bert", "BertLayer", read_bert},
    {"blenderbot", "BlenderbotDecoderLayer", read_blenderbot},
    {"bloom", "BloomBlock", read_bloom},
    {"camembert", "CamembertLayer", read_roberta, "bert"},
    {"falcon", "FalconDecoderLayer", read_falcon},
    {"gpt2", "GPT2Block", read_gpt2},
    {"gpt_bigcode", "GPTBigCodeBlock", read_gpt_bigcode},
    {"gpt_neox", "GPTNeoXLayer", read_gpt_neox},
    {"mpt", "MptBlock", read_mpt},
    {"mt5", "MT5Block", read_t5, "t5"},
    {"opt", "OPTDecoderLayer", read_opt},
    {"roberta", "RobertaLayer", read_roberta, "bert"},
    {"t5", "T5Block", read_t5},
    {"xlm-roberta", "XLMRobertaLayer", read_roberta, "bert"},
};

}  // namespace

std::span<const Family> other_families() { return kOtherFamilies; }

}  // namespace zplan
