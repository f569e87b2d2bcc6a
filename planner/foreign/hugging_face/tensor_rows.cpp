#include "planner/foreign/hugging_face/tensor_rows.h"

#include <algorithm>
#include <span>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr std::size_t kMostParts = 3;

// What stands side by side in the columns of a tensor.
enum class Side : std::uint8_t { kOne, kQkv, kEqual };

struct TensorRow {
  std::string_view tensor;  // without ".weight" or ".bias"; "{}" is the layer
  // Those of the parts, "{e}" is the expert; none: the same as the tensor.
  std::string_view parts[kMostParts]{};
  Side side = Side::kOne;
  bool transposed = false;  // of matrices
};

struct WeightFamily {
  std::string_view type, prefix, model_class;
  std::span<const TensorRow> rows;
};

constexpr TensorRow kGpt2[] = {
    {"transformer.wte"},
    {"transformer.wpe"},
    {"transformer.h.{}.ln_1"},
    {"transformer.h.{}.attn.c_attn"},
    {"transformer.h.{}.attn.c_proj"},
    {"transformer.h.{}.ln_2"},
    {"transformer.h.{}.mlp.c_fc"},
    {"transformer.h.{}.mlp.c_proj"},
    {"transformer.ln_f"},
    {"lm_head"},
};

constexpr TensorRow kLlamaQkv{
    "model.layers.{}.self_attn.qkv_proj",
    {"model.layers.{}.self_attn.q_proj", "model.layers.{}.self_attn.k_proj",
     "model.layers.{}.self_attn.v_proj"},
    Side::kQkv,
    true};
constexpr TensorRow kLlamaOut{"model.layers.{}.self_attn.o_proj", {}, Side::kOne, true};

// Those of Llama and of what differs from it by biases, windows and norms of heads alone.
constexpr TensorRow kLlama[] = {
    {"model.embed_tokens"},
    {"model.layers.{}.input_layernorm"},
    kLlamaQkv,
    {"model.layers.{}.self_attn.q_norm"},
    {"model.layers.{}.self_attn.k_norm"},
    kLlamaOut,
    {"model.layers.{}.post_attention_layernorm"},
    {"model.layers.{}.mlp.gate_up_proj",
     {"model.layers.{}.mlp.gate_proj", "model.layers.{}.mlp.up_proj"},
     Side::kEqual,
     true},
    {"model.layers.{}.mlp.down_proj", {}, Side::kOne, true},
    {"model.norm"},
    {"lm_head"},
};

constexpr TensorRow kMixtral[] = {
    {"model.embed_tokens"},
    {"model.layers.{}.input_layernorm"},
    kLlamaQkv,
    kLlamaOut,
    {"model.layers.{}.post_attention_layernorm"},
    {"model.layers.{}.mlp.gate", {"model.layers.{}.block_sparse_moe.gate"}, Side::kOne, true},
    {"model.layers.{}.mlp.experts.gate_up_proj",
     {"model.layers.{}.block_sparse_moe.experts.{e}.w1",
      "model.layers.{}.block_sparse_moe.experts.{e}.w3"},
     Side::kEqual,
     true},
    {"model.layers.{}.mlp.experts.down_proj",
     {"model.layers.{}.block_sparse_moe.experts.{e}.w2"},
     Side::kOne,
     true},
    {"model.norm"},
    {"lm_head"},
};

constexpr WeightFamily kWeightFamilies[] = {
    {"gpt2", "transformer.", "GPT2LMHeadModel", kGpt2},
    {"llama", "model.", "LlamaForCausalLM", kLlama},
    {"mistral", "model.", "MistralForCausalLM", kLlama},
    {"mixtral", "model.", "MixtralForCausalLM", kMixtral},
    {"qwen2", "model.", "Qwen2ForCausalLM", kLlama},
    {"qwen3", "model.", "Qwen3ForCausalLM", kLlama},
};

const WeightFamily* family_of(std::string_view type) {
  const auto found = std::find_if(std::begin(kWeightFamilies), std::end(kWeightFamilies),
                                  [&](const WeightFamily& family) { return family.type == type; });
  return found == std::end(kWeightFamilies) ? nullptr : found;
}

std::string replaced(std::string text, std::string_view what, std::int64_t number) {
  const std::size_t place = text.find(what);
  return place == text.npos ? text : text.replace(place, what.size(), std::to_string(number));
}

std::vector<std::int64_t> widths_of(const TensorRow& row, const ModelConfig& model,
                                    std::int64_t columns) {
  switch (row.side) {
    case Side::kOne:
      return {columns};
    case Side::kQkv: {
      const std::int64_t keys = model.kv_heads * model.head_size();
      return {model.heads * model.head_size(), keys, model.kv_heads * model.value_size()};
    }
    case Side::kEqual:
      return {columns / 2, columns / 2};
  }
  return {};
}

// A vector is one row. Of experts each has a matrix, whose rows may stand side by side.
PublishedTensor seen_as(const Shape& shape, bool per_expert, const ModelConfig& model) {
  if (shape.rank == 1) return {1, 1, shape[0], {}};
  if (!per_expert) return {1, shape[0], shape[1], {}};
  if (shape.rank == 2) return {shape[0], shape[1] / model.hidden, model.hidden, {}};
  return {shape[0], shape[1], shape[2], {}};
}

}  // namespace

std::vector<std::string> types_with_weights() {
  std::vector<std::string> types;
  for (const WeightFamily& family : kWeightFamilies) types.emplace_back(family.type);
  return types;
}

std::string_view optional_prefix(std::string_view model_type) {
  const WeightFamily* const family = family_of(model_type);
  return family == nullptr ? std::string_view() : family->prefix;
}

std::string_view class_of(std::string_view model_type) {
  const WeightFamily* const family = family_of(model_type);
  return family == nullptr ? std::string_view() : family->model_class;
}

std::optional<PublishedTensor> published_tensor(std::string_view model_type,
                                                const ModelConfig& model,
                                                const KeptTensor& tensor) {
  const WeightFamily* const family = family_of(model_type);
  if (family == nullptr) return std::nullopt;
  const std::string_view pattern = tensor.pattern;
  const std::size_t end = std::min(pattern.rfind('.'), pattern.size());
  const std::string_view stem = pattern.substr(0, end), suffix = pattern.substr(end);
  const auto row = std::find_if(family->rows.begin(), family->rows.end(),
                                [&](const TensorRow& each) { return each.tensor == stem; });
  if (row == family->rows.end() || (suffix != ".weight" && suffix != ".bias")) return std::nullopt;
  std::vector<std::string_view> names{row->tensor};
  if (!row->parts[0].empty()) names.assign(std::begin(row->parts), std::end(row->parts));
  const bool per_expert = names.front().find("{e}") != std::string_view::npos;
  PublishedTensor seen = seen_as(tensor.shape, per_expert, model);
  const std::vector<std::int64_t> widths = widths_of(*row, model, seen.columns);
  const bool transposed = row->transposed && tensor.shape.rank > 1;
  for (std::int64_t matrix = 0; matrix < seen.matrices; ++matrix) {
    std::int64_t column = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      std::string name = replaced(std::string(names[i]), "{}", tensor.layer);
      name = replaced(std::move(name), "{e}", matrix).append(suffix);
      std::vector<std::int64_t> shape{seen.rows, widths[i]};
      if (transposed) std::swap(shape[0], shape[1]);
      if (tensor.shape.rank == 1) shape = {widths[i]};
      seen.parts.push_back(
          {std::move(name), std::move(shape), matrix, column, widths[i], transposed});
      column += widths[i];
    }
    ZPLAN_ASSERT(column == seen.columns);
  }
  return seen;
}

}  // namespace zplan
