#include "planner/foreign/frameworks/megatron_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/layer_pattern.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/hugging_face/families.h"

namespace zplan {
namespace {

// Tokens of the vocabulary of GPT-2's tokenizer, which most scripts of the repository name
// [Radford19].
constexpr std::int64_t kGpt2Vocabulary = 50257;

class ModelReading {
 public:
  ModelReading(const JsonNode& root, const ConfigReader& options)
      : root_(root), options_(options) {}

  ModelConfig read() {
    set_architecture(model_, options_.flag("--swiglu") ? Architecture::kLlama : Architecture::kGpt);
    model_.name = "megatron-command";
    model_.source = "options of Megatron-LM";
    read_sizes();
    read_features();
    read_window();
    if (options_.has("--num-experts") && !is_dense_fork()) read_experts();
    if (options_.flag("--multi-latent-attention")) read_latent();
    read_mtp();
    read_hybrid();
    read_variant();
    try {
      validate(model_);
    } catch (const Error& error) {
      const std::string_view message = error.what();
      root_.fail(
          fmt::format("expected options of a model: {}", message.substr(message.find(": ") + 2)));
    }
    return std::move(model_);
  }

 private:
  // Of Megatron-DeepSpeed one expert is none.
  bool is_fork() const { return options_.has("--deepspeed"); }
  bool is_dense_fork() const {
    return is_fork() && options_.integer("--num-experts", 1, kMostSize) == 1;
  }

  std::int64_t size(std::string_view option, std::int64_t usual) const {
    return options_.has(option) ? options_.integer(option, 1, kMostSize) : usual;
  }

  // "(4095,0)" or a list: tokens before its own that a query sees, and behind it. Of so many layers
  // the last sees all [MegatronCore core/transformer/utils.py: is_layer_window_attention].
  void read_window() {
    const auto window = options_.find("--window-size");
    if (!window || window->is_null()) return;
    std::string text = window->is_string() ? window->string() : "";
    std::ranges::replace(text, '(', '[');
    std::ranges::replace(text, ')', ']');
    const JsonNode pair = window->is_string() ? parse_json(text, "--window-size") : *window;
    const std::vector<JsonNode> ends = pair.items();
    if (ends.size() != 2) window->fail_expected("two numbers, as in (4095,0)");
    const std::int64_t before = ends.front().integer(-1, kMostSize);
    if (before < 0) return;  // no end
    model_.layer.window = before + 1;
    const auto every = options_.find("--window-attn-skip-freq");
    if (!every || every->is_null()) return;
    model_.layer.window_layers = every->integer(2, kMostLayers) - 1;
    model_.layer.full_layers = 1;
  }

  // Without a width the MLP has four times the hidden size, gated two thirds of that in multiples
  // of 64 [MegatronCore training/arguments.py].
  std::int64_t usual_ffn() const {
    const std::int64_t h = model_.hidden;
    return options_.flag("--swiglu") ? 4 * h * 2 / 3 / 64 * 64 : 4 * h;
  }

  void read_sizes() {
    model_.layers = options_.integer("--num-layers", 1, kMostLayers);
    model_.hidden = options_.integer("--hidden-size", 1, kMostSize);
    if (!options_.has("--num-attention-heads"))
      root_.fail("expected --num-attention-heads, got a model without");
    model_.heads = options_.integer("--num-attention-heads", 1, kMostSize);
    model_.kv_heads = options_.flag("--group-query-attention")
                          ? options_.integer("--num-query-groups", 1, kMostSize)
                          : model_.heads;
    const std::int64_t head = size("--kv-channels", 0);
    model_.own_head_size = head * model_.heads == model_.hidden ? 0 : head;
    model_.ffn = size("--ffn-hidden-size", usual_ffn());
    model_.vocab = size("--vocab-size", kGpt2Vocabulary);
    model_.sequence = size("--seq-length", size("--max-position-embeddings", 1024));
    model_.global_batch = size("--global-batch-size", 1);
  }

  void read_features() {
    const bool plain = !options_.flag("--disable-bias-linear");
    model_.biases = plain                             ? Biases::kAll
                    : options_.flag("--add-qkv-bias") ? Biases::kQkv
                                                      : Biases::kNone;
    model_.norm = is_rms_norm() ? Norm::kRmsNorm : Norm::kLayerNorm;
    model_.layer.norm_epsilon =
        std::llround(options_.number("--norm-epsilon", 0, 1) * kEpsilonUnit);
    model_.gated_mlp = options_.flag("--swiglu");
    if (options_.flag("--squared-relu"))
      options_.find("--squared-relu")
          ->fail("expected an activation that can be lowered: GELU or SwiGLU");
    read_position();
    model_.qk_norm = options_.flag("--qk-layernorm");
    model_.tied_embeddings = !options_.flag("--untie-embeddings-and-output-weights");
  }

  // Forks write "rmsnorm".
  bool is_rms_norm() const {
    const auto node = options_.find("--normalization");
    return node && node->is_string() && to_lower(node->string()) == "rmsnorm"
               ? true
               : options_.word("--normalization", {"LayerNorm", "RMSNorm"}) == "RMSNorm";
  }

  // "alibi" and "rotary" are of forks.
  void read_position() {
    const std::string position = options_.word("--position-embedding-type",
                                               {"learned_absolute", "rope", "none", "yarn", "mrope",
                                                "relative", "alibi", "rotary", "absolute"});
    if (position == "mrope" || position == "relative")
      options_.find("--position-embedding-type")
          ->fail_expected("learned_absolute, rope, yarn, alibi or none");
    const bool rotates = position == "rope" || position == "yarn" || position == "rotary" ||
                         options_.flag("--use-rotary-position-embeddings");
    model_.position = rotates               ? Position::kRope
                      : position == "none"  ? Position::kNone
                      : position == "alibi" ? Position::kAlibi
                                            : Position::kLearned;
    if (model_.position == Position::kLearned)
      model_.sequence = size("--max-position-embeddings", model_.sequence);
    model_.rope_theta = rotates ? options_.integer("--rotary-base", 1, std::int64_t{1} << 40) : 0;
    const double turned = options_.number("--rotary-percent", 0, 1);
    if (rotates && turned < 1)
      model_.layer.rotary_size =
          static_cast<std::int64_t>(turned * static_cast<double>(model_.head_size()));
  }

  void read_experts() {
    ExpertShape experts;
    experts.count = options_.integer("--num-experts", 1, kMostSize);
    experts.per_token =
        is_fork() ? size("--topk", 1) : options_.integer("--moe-router-topk", 1, experts.count);
    experts.ffn = size("--moe-ffn-hidden-size", model_.ffn);
    experts.shared_ffn = size("--moe-shared-expert-intermediate-size", 0);
    experts.shared_gate = experts.shared_ffn > 0 && options_.flag("--moe-shared-expert-gate");
    experts.latent = size("--moe-latent-size", 0);
    experts.scores =
        options_.word("--moe-router-score-function", {"softmax", "sigmoid"}) == "sigmoid"
            ? Scores::kSigmoid
            : Scores::kSoftmax;
    experts.selection_bias = options_.flag("--moe-router-enable-expert-bias");
    experts.groups = size("--moe-router-num-groups", 1);
    experts.groups_per_token = size("--moe-router-group-topk", 1);
    if (options_.has("--moe-router-topk-scaling-factor"))
      experts.scale = options_.number("--moe-router-topk-scaling-factor", 0, 1e6);
    // Sigmoids of several experts always sum to 1 [MegatronCore transformer/moe/moe_utils.py].
    experts.renormalised = experts.scores == Scores::kSoftmax
                               ? !options_.flag("--moe-router-pre-softmax")
                               : experts.per_token > 1;
    experts.balance =
        options_.has("--moe-aux-loss-coeff") ? options_.number("--moe-aux-loss-coeff", 0, 1) : 0;
    if (const auto frequency = options_.find("--moe-layer-freq");
        frequency && !frequency->is_number())
      read_pattern(*frequency, experts);
    else
      experts.every = is_fork() ? size("--expert-interval", 2)
                                : options_.integer("--moe-layer-freq", 1, kMostLayers);
    model_.experts = experts;
  }

  void read_mtp() {
    if (!options_.has("--mtp-num-layers")) return;
    model_.mtp_layers = options_.integer("--mtp-num-layers", 0, kMostSize);
    if (model_.mtp_layers > 0)
      model_.mtp_loss = options_.number("--mtp-loss-scaling-factor", 0, 1e6);
  }

  // A letter for each layer, which has one branch.
  void read_hybrid() {
    const auto pattern = options_.find("--hybrid-override-pattern");
    if (!pattern) return;
    const std::string words = pattern->string();
    if (words.find_first_of("|/ ") != std::string::npos)
      pattern->fail_expected("a letter for each layer, without stages and predictors");
    if (const std::string fault = pattern_fault(words, model_.layers); !fault.empty())
      pattern->fail(fault);
    if (words.find_first_not_of(kMegatronLetters) != std::string::npos)
      pattern->fail_expected("M, *, E or - for each layer");
    take_pattern(pattern_of(words, model_.layers));
    if (model_.layers_with(Mixer::kMamba) == 0) return;
    MambaShape& mamba = model_.mamba.emplace();
    mamba.head_size = size("--mamba-head-dim", 64);
    mamba.heads = size("--mamba-num-heads", 2 * model_.hidden / mamba.head_size);
    mamba.groups = size("--mamba-num-groups", 8);
    mamba.state = size("--mamba-state-dim", 128);
    constexpr std::int64_t kChunk = 128;  // of its MambaMixer [MegatronCore ssm/mamba_mixer.py]
    mamba.chunk = kChunk;
  }

  // An indexer of keys, or gated delta nets in some of the layers.
  void read_variant() {
    model_.layer.attention_gate = options_.flag("--attention-output-gate");
    const auto variant = options_.find("--experimental-attention-variant");
    if (!variant) return;
    if (variant->one_of({"gated_delta_net", "dsa"}) == "dsa") return read_index();
    read_delta();
  }

  void read_index() {
    constexpr std::string_view kHeads = "--dsa-indexer-n-heads";
    model_.index = IndexShape{.heads = options_.integer(kHeads, 1, kMostSize),
                              .head_size = options_.integer("--dsa-indexer-head-dim", 1, kMostSize),
                              .keys = options_.integer("--dsa-indexer-topk", 1, kMostSize)};
    if (const auto every = options_.find("--dsa-indexer-topk-freq");
        every && every->integer(1, kMostLayers) != 1)
      every->fail_expected("1: each layer has an indexer of its own");
  }

  // All layers but every so-many-th have one, each before an MLP or experts.
  void read_delta() {
    const std::int64_t every = options_.integer("--linear-attention-freq", 1, kMostLayers);
    LayerPattern pattern;
    for (std::int64_t i = 0; i < model_.layers; ++i)
      pattern.push_back({(i + 1) % every == 0 ? Mixer::kAttention : Mixer::kDelta,
                         model_.parts_of(i).feed_forward});
    take_pattern(std::move(pattern));
    DeltaShape& delta = model_.delta.emplace();
    delta.key_heads = size("--linear-num-key-heads", 16);
    delta.value_heads = size("--linear-num-value-heads", 32);
    delta.key_size = size("--linear-key-head-dim", 128);
    delta.value_size = size("--linear-value-head-dim", 128);
    delta.conv = size("--linear-conv-kernel-dim", delta.conv);
  }

  // A pattern says which layers have experts.
  void take_pattern(LayerPattern pattern) {
    model_.pattern = std::move(pattern);
    if (!model_.experts) return;
    model_.experts->dense_layers = 0;
    model_.experts->every = 1;
    if (model_.layers_with(FeedForward::kExperts) == 0) model_.experts.reset();
    if (model_.experts && !model_.has_mlp()) model_.ffn = model_.experts->ffn;
  }

  // A list as Python writes it.
  static std::string listed(const JsonNode& node) {
    std::string out;
    for (const JsonNode& item : node.items()) {
      const bool has_experts = item.is_boolean() ? item.boolean() : item.integer(0, 1) == 1;
      out += has_experts ? "1," : "0,";
    }
    return '[' + out + ']';
  }

  // "([0]*3+[1]*58)": of each layer whether it has experts; every so-many-th from the first on.
  void read_pattern(const JsonNode& node, ExpertShape& experts) const {
    const auto layers = static_cast<std::size_t>(model_.layers);
    const std::optional<std::vector<bool>> pattern =
        layer_pattern(node.is_array() ? listed(node) : node.string(), layers);
    if (!pattern || pattern->size() != layers)
      node.fail_expected("a number, or of each layer 0 or 1, as in ([0]*3+[1]*58)");
    const auto first = std::ranges::find(*pattern, true);
    if (first == pattern->end()) node.fail_expected("a layer with experts");
    const auto next = std::find(first + 1, pattern->end(), true);
    experts.dense_layers = first - pattern->begin();
    experts.every = next != pattern->end()        ? next - first
                    : first + 1 == pattern->end() ? 1
                                                  : pattern->end() - first;
    for (std::size_t layer = 0; layer < layers; ++layer)
      if (experts.is_in(static_cast<std::int64_t>(layer)) != (*pattern)[layer])
        node.fail_expected("layers with experts at equal distances");
  }

  void read_latent() {
    LatentShape latent;
    latent.query_rank = size("--q-lora-rank", 0);
    latent.key_value_rank = options_.integer("--kv-lora-rank", 1, kMostSize);
    latent.nope_size = options_.integer("--qk-head-dim", 1, kMostSize);
    latent.rope_size = options_.integer("--qk-pos-emb-head-dim", 1, kMostSize);
    latent.value_size = options_.integer("--v-head-dim", 1, kMostSize);
    model_.latent = latent;
    model_.kv_heads = model_.heads;
    model_.own_head_size = 0;
    model_.qk_norm = false;  // of the latents, which always have one
  }

  const JsonNode& root_;
  const ConfigReader& options_;
  ModelConfig model_;
};

}  // namespace

std::optional<ModelConfig> megatron_model(const JsonNode& root) {
  const JsonNode options = megatron_options(root);
  if (!find_key(options, "--num-layers") || !find_key(options, "--hidden-size"))
    return std::nullopt;
  const KeyTable& table = KeyTable::of("megatron.json");
  return megatron_model(options, ConfigReader(options, table));
}

ModelConfig megatron_model(const JsonNode& root, const ConfigReader& options) {
  return ModelReading(root, options).read();
}

}  // namespace zplan
