#include "planner/foreign/hugging_face/vision_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "planner/foreign/hugging_face/config_keys.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostVisionSize = 1 << 20;
constexpr std::int64_t kImagePixels = 448;  // [assumed] of a side, where towers take any image

struct VisionKeys {
  JsonObject tower, whole;
  const ModelConfig& text;

  static std::optional<JsonNode> find(JsonObject& object,
                                      std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (const auto node = object.optional_member(name); node && !node->is_null()) return node;
    return std::nullopt;
  }
  std::int64_t size(std::initializer_list<std::string_view> names, std::int64_t otherwise) {
    const auto node = find(tower, names);
    return node ? whole_number(*node, 1, kMostVisionSize) : otherwise;
  }
  std::int64_t around(std::string_view name, std::int64_t otherwise) {
    const auto node = find(whole, {name});
    return node ? whole_number(*node, 1, kMostVisionSize) : otherwise;
  }
  bool flag_around(std::string_view name, bool otherwise) {
    const auto node = find(whole, {name});
    return node ? node->boolean() : otherwise;
  }
};

// Patches of an image of so many pixels on a side.
std::int64_t patches_of(std::int64_t pixels, std::int64_t patch) {
  const std::int64_t side = std::max<std::int64_t>(1, pixels / patch);
  return side * side;
}

std::string product(std::int64_t columns, bool bias) {
  return std::to_string(columns) + (bias ? "+bias" : "");
}

struct UsualSizes {
  std::int64_t layers, hidden, heads, ffn;
};
// Sizes as the towers of later files say them.
VisionShape common_sizes(VisionKeys& keys, const UsualSizes& usual) {
  VisionShape v;
  v.layers = keys.size({"depth", "num_hidden_layers", "vt_num_hidden_layers"}, usual.layers);
  v.hidden = keys.size({"hidden_size", "vt_hidden_size"}, usual.hidden);
  v.heads = keys.size({"num_heads", "num_attention_heads", "vt_num_attention_heads"}, usual.heads);
  v.ffn = keys.size({"intermediate_size", "vt_intermediate_size"}, usual.ffn);
  return v;
}

struct Pixels {
  std::int64_t patch = 14;  // on a side
  std::int64_t frames = 1;
  std::int64_t image = kImagePixels;
};
Pixels read_pixels(VisionKeys& keys, VisionShape& v, const Pixels& usual) {
  Pixels p = usual;
  p.patch = keys.size({"patch_size"}, usual.patch);
  p.frames = keys.size({"temporal_patch_size"}, usual.frames);
  const std::int64_t channels = keys.size({"in_channels", "in_chans", "num_channels"}, 3);
  v.patch = channels * p.frames * p.patch * p.patch;
  v.patches = patches_of(p.image, p.patch);
  return p;
}

std::int64_t merged(VisionKeys& keys) {
  const std::int64_t side = keys.size({"spatial_merge_size"}, 2);
  return side * side;
}

VisionShape qwen2_vl(VisionKeys& keys) {
  VisionShape v;
  v.layers = keys.size({"depth"}, 32);
  v.hidden = keys.size({"embed_dim"}, 1280);
  v.heads = keys.size({"num_heads"}, 16);
  v.rope = true;
  v.ffn = v.hidden * keys.size({"mlp_ratio"}, 4);
  v.merge = merged(keys);
  read_pixels(keys, v, {.patch = 14, .frames = 2});
  v.projector = fmt::format("layernorm merge {} gelu {}", product(v.merge * v.hidden, true),
                            product(keys.text.hidden, true));
  return v;
}

VisionShape qwen2_5_vl(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 32, .hidden = 3584, .heads = 16, .ffn = 3420});
  v.rms_norm = v.gated_mlp = v.rope = true;
  v.merge = merged(keys);
  const Pixels pixels = read_pixels(keys, v, {.patch = 14, .frames = 2});
  v.window = patches_of(keys.size({"window_size"}, 112), pixels.patch);
  v.full_every = 8;
  const auto full = VisionKeys::find(keys.tower, {"fullatt_block_indexes"});
  if (full && !full->items().empty())
    v.full_every = full->items().front().integer(0, kMostVisionSize) + 1;  // 7, 15 ..
  v.projector = fmt::format("rmsnorm merge {} gelu {}", product(v.merge * v.hidden, true),
                            product(keys.text.hidden, true));
  return v;
}

// Further projectors beside the last one, and none in Qwen3.5.
VisionShape qwen3_vl(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304});
  v.patch_bias = v.rope = true;
  v.merge = merged(keys);
  v.positions = keys.size({"num_position_embeddings"}, 2304);
  read_pixels(keys, v, {.patch = 16, .frames = 2});
  const std::string products =
      fmt::format("{} gelu {}", product(v.merge * v.hidden, true), product(keys.text.hidden, true));
  v.projector = "layernorm merge " + products;
  const auto further = VisionKeys::find(keys.tower, {"deepstack_visual_indexes"});
  for (std::size_t i = 0; further && i < further->items().size(); ++i)
    v.projector += "; merge layernorm " + products;
  return v;
}

// A class token is a row of the positions.
VisionShape llava(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072});
  v.embedding_norm = true;
  read_pixels(keys, v, {.patch = 32, .image = keys.size({"image_size"}, 224)});
  v.positions = v.patches + 2;
  const bool bias = keys.flag_around("multimodal_projector_bias", true);
  v.projector = fmt::format("layernorm {} gelu {}", product(keys.text.hidden, bias),
                            product(keys.text.hidden, bias));
  return v;
}

VisionShape gemma3(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072});
  v.patch_bias = true;
  read_pixels(keys, v, {.patch = 16, .image = keys.size({"image_size"}, 224)});
  v.positions = v.patches;
  v.merge = std::max<std::int64_t>(1, v.patches / keys.around("mm_tokens_per_image", 256));
  v.projector = fmt::format("layernorm {}rmsnorm {}", v.merge > 1 ? "mean " : "", keys.text.hidden);
  return v;
}

// Each position has a row and a column.
VisionShape gemma4(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 16, .hidden = 768, .heads = 12, .ffn = 3072});
  v.rms_norm = v.gated_mlp = v.rope = v.qk_norm = v.post_norms = true;
  v.biases = false;
  read_pixels(keys, v, {.patch = 16});
  const std::int64_t side = keys.size({"pooling_kernel_size"}, 3);
  v.merge = side * side;
  v.patches = v.merge * keys.around("vision_soft_tokens_per_image", 280);
  v.positions = 2 * keys.size({"position_embedding_size"}, 10 * 1024);
  v.projector = fmt::format("mean {}", keys.text.hidden);
  return v;
}

VisionShape mistral3(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096});
  v.rms_norm = v.gated_mlp = v.rope = v.embedding_norm = true;
  v.biases = false;
  read_pixels(keys, v, {.patch = 16});
  const std::int64_t side = keys.around("spatial_merge_size", 2);
  v.merge = side * side;
  const bool bias = keys.flag_around("multimodal_projector_bias", false);
  v.projector = fmt::format("rmsnorm merge {} {} gelu {}", v.hidden,
                            product(keys.text.hidden, bias), product(keys.text.hidden, bias));
  return v;
}

VisionShape llama4(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 34, .hidden = 768, .heads = 16, .ffn = 5632});
  v.embedding_norm = v.rope = true;
  read_pixels(keys, v, {.patch = 14, .image = keys.size({"image_size"}, 448)});
  v.positions = v.patches + 2;
  v.merge = 4;  // pixel_shuffle_ratio 0.5
  v.projector =
      fmt::format("layernorm merge {} gelu {} gelu {}", keys.size({"projector_input_dim"}, 4096),
                  keys.size({"projector_output_dim"}, 4096), keys.text.hidden);
  return v;
}

// The MLP of a layer is as wide as what the tower gives, that of its last step has the width.
VisionShape glm4v(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 24, .hidden = 1536, .heads = 12, .ffn = 13696});
  const std::int64_t out = keys.size({"out_hidden_size"}, 4096), wide = v.ffn;
  v.ffn = out;
  v.rms_norm = v.gated_mlp = v.patch_bias = v.rope = v.embedding_norm = true;
  v.biases = false;
  v.merge = merged(keys);
  const Pixels pixels = read_pixels(keys, v, {.patch = 14, .frames = 2});
  v.positions = patches_of(keys.size({"image_size"}, 336), pixels.patch);
  v.projector = fmt::format("rmsnorm merge {} {} layernorm gelu {} swiglu {}", product(out, true),
                            out, 2 * wide, out);
  return v;
}

VisionShape kimi(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 27, .hidden = 1152, .heads = 16, .ffn = 4304});
  v.patch_bias = v.rope = true;
  read_pixels(keys, v, {.patch = 14});
  v.merge = 4;
  v.positions = keys.size({"init_pos_emb_height"}, 64) * keys.size({"init_pos_emb_width"}, 64);
  v.projector = fmt::format("layernorm layernorm merge {} gelu {}",
                            product(v.merge * v.hidden, true), product(keys.text.hidden, true));
  return v;
}

VisionShape lfm2_vl(VisionKeys& keys) {
  VisionShape v = common_sizes(keys, {.layers = 12, .hidden = 768, .heads = 12, .ffn = 3072});
  v.patch_bias = true;
  read_pixels(keys, v, {.patch = 16});
  v.positions = keys.size({"num_patches"}, 256);
  const std::int64_t side = keys.around("downsample_factor", 2);
  v.merge = side * side;
  const bool bias = keys.flag_around("projector_bias", true);
  const bool norm = keys.flag_around("projector_use_layernorm", true);
  v.projector = fmt::format("layernorm merge {}{} gelu {}", norm ? "layernorm " : "",
                            product(keys.around("projector_hidden_size", 2560), bias),
                            product(keys.text.hidden, bias));
  return v;
}

struct VisionReader {
  std::string_view type;
  VisionShape (*read)(VisionKeys& keys);
};
constexpr VisionReader kVisionReaders[] = {
    {"gemma3", gemma3},         {"gemma4", gemma4},       {"glm4v_moe", glm4v},
    {"kimi_k25", kimi},         {"lfm2_vl", lfm2_vl},     {"llama4", llama4},
    {"llava", llava},           {"mistral3", mistral3},   {"qwen2_vl", qwen2_vl},
    {"qwen2_5_vl", qwen2_5_vl}, {"qwen3_vl", qwen3_vl},   {"qwen3_vl_moe", qwen3_vl},
    {"qwen3_5", qwen3_vl},      {"qwen3_5_moe", qwen3_vl}};

}  // namespace

std::optional<VisionShape> read_vision_part(const std::string& type, JsonObject& whole,
                                            const ModelConfig& text) {
  const auto tower = VisionKeys::find(whole, {"vision_config"});
  if (!tower || !tower->is_object()) return std::nullopt;
  for (const VisionReader& row : kVisionReaders)
    if (row.type == type) {
      VisionKeys keys{tower->object(), whole, text};
      return row.read(keys);
    }
  return std::nullopt;
}

}  // namespace zplan
