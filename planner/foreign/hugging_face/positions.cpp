#include "planner/foreign/hugging_face/positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostTheta = 1'000'000'000'000, kMostStretch = 1 << 16;
constexpr std::int64_t kMostTokens = 1 << 24;
using spelt::kWithoutWindow;
using spelt::kWithWindow;

// One set of rotary parameters; what is left out has another place or a default.
struct Rope {
  std::optional<JsonNode> theta, type, factor, share, unstretched;
};

Rope rope_of(JsonObject object) {
  const auto member = [&](std::string_view key) -> std::optional<JsonNode> {
    auto node = object.optional_member(key);
    return node && !node->is_null() ? node : std::nullopt;
  };
  Rope rope{.theta = member("rope_theta"),
            .type = member("rope_type"),
            .factor = member("factor"),
            .share = member("partial_rotary_factor"),
            .unstretched = member("original_max_position_embeddings")};
  if (!rope.type) rope.type = member("type");  // before transformers 4.45
  return rope;
}

// Of layers of this kind where they differ.
std::optional<Rope> stated_rope(ConfigKeys& keys, std::string_view kind) {
  const auto node = keys.stated(spelt::kRope);
  if (!node) return std::nullopt;
  JsonObject object = node->object();
  if (const auto own = object.optional_member(kind))
    return own->is_null() ? std::nullopt : std::optional(rope_of(own->object()));
  const bool by_kind =
      object.optional_member(kWithWindow) || object.optional_member(kWithoutWindow);
  if (by_kind || kind == kWithWindow) return std::nullopt;
  return rope_of(object);
}

void read_stretch(const Rope& rope, ConfigKeys& keys, ModelConfig& model) {
  if (!rope.type) return;
  const std::string type = rope.type->one_of(
      {"default", "linear", "dynamic", "llama3", "longrope", "mrope", "su", "yarn"});
  // The three positions of a token are the same in text.
  if (type == "default" || type == "mrope") return;
  if (type != "linear") {
    keys.note(
        fmt::format("positions are not stretched as \"{}\" of {} does it: angles and scores "
                    "differ, no bytes and no flop",
                    type, rope.type->pointer()));
    return;
  }
  if (!rope.factor) rope.type->fail("expected a factor beside \"linear\", got none");
  model.layer.rope_stretch = whole_number(*rope.factor, 1, kMostStretch);
}

void read_share(double share, ModelConfig& model) {
  const auto size = static_cast<std::int64_t>(share * static_cast<double>(model.head_size()));
  if (size != model.head_size()) model.layer.rotary_size = size;
}

// As layer_features.h says it; nothing: not in such turns.
struct Turn {
  std::int64_t first = 0, then = 0;
};
std::optional<Turn> turn_of(const std::vector<bool>& layers) {
  const bool begin = layers.front();
  const auto other = std::find(layers.begin(), layers.end(), !begin);
  const auto again = std::find(other, layers.end(), begin);
  const Turn turn{other - layers.begin(), again - other};
  const std::int64_t whole = turn.first + turn.then;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i] != (static_cast<std::int64_t>(i) % whole < turn.first ? begin : !begin))
      return std::nullopt;
  return turn;
}

std::vector<bool> stated_layers(const JsonNode& node, std::int64_t count) {
  std::vector<bool> layers;
  for (const JsonNode& kind : node.items())
    layers.push_back(kind.one_of({kWithWindow, kWithoutWindow}) == kWithWindow);
  if (static_cast<std::int64_t>(layers.size()) != count)
    node.fail(fmt::format("expected one for each of the {} layers, got {}", count, layers.size()));
  return layers;
}

}  // namespace

void read_rotary(ConfigKeys& keys, ModelConfig& model) {
  model.position = Position::kRope;
  const std::optional<Rope> rope = stated_rope(keys, kWithoutWindow);
  const auto beside = keys.find(spelt::kTheta);
  const auto share = keys.find(spelt::kRotaryShare);
  const std::optional<JsonNode> theta = rope && rope->theta ? rope->theta : beside;
  if (!theta) keys.must(spelt::kTheta);
  model.rope_theta = whole_number(*theta, 1, kMostTheta);
  if (rope) read_stretch(*rope, keys, model);
  const std::optional<JsonNode> part = rope && rope->share ? rope->share : share;
  if (!model.latent && part) read_share(part->number(0.001, 1), model);
  const std::optional<Rope> near = stated_rope(keys, kWithWindow);
  const auto near_beside = keys.find(spelt::kLocalTheta);
  const std::optional<JsonNode> local = near && near->theta ? near->theta : near_beside;
  if (local && model.layer.window > 0)
    model.layer.local_rope_theta = whole_number(*local, 1, kMostTheta);
}

std::int64_t unstretched_positions(ConfigKeys& keys) {
  const std::optional<Rope> rope = stated_rope(keys, kWithoutWindow);
  const auto beside = keys.stated({"original_max_position_embeddings", "initial_context_length"});
  const std::optional<JsonNode> node = rope && rope->unstretched ? rope->unstretched : beside;
  return node ? whole_number(*node, 1, kMostTokens) : 0;
}

std::vector<bool> all_layers(const ModelConfig& model) {
  return std::vector<bool>(static_cast<std::size_t>(model.layers), true);
}

std::vector<bool> but_every(const ModelConfig& model, std::int64_t turn) {
  std::vector<bool> layers = all_layers(model);
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers[i] = (static_cast<std::int64_t>(i) + 1) % turn != 0;
  return layers;
}

void read_windows_from(ConfigKeys& keys, ModelConfig& model, std::int64_t first) {
  std::vector<bool> layers = all_layers(model);
  std::fill_n(layers.begin(), std::min(first, model.layers), false);
  read_windows(keys, model, std::move(layers));
}

std::vector<bool> but_first_of(const ModelConfig& model, std::int64_t turn) {
  std::vector<bool> layers = all_layers(model);
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers[i] = static_cast<std::int64_t>(i) % turn != 0;
  return layers;
}

void read_windows(ConfigKeys& keys, ModelConfig& model, std::vector<bool> usual) {
  const auto size = keys.find(spelt::kWindow);
  keys.find(spelt::kLayerTypes);
  if (size)
    read_windows_of(keys, model, whole_number(*size, 1, kMostTokens), *size, std::move(usual));
}

void read_windows_of(ConfigKeys& keys, ModelConfig& model, std::int64_t tokens,
                     const JsonNode& size, std::vector<bool> usual) {
  const auto types = keys.stated(spelt::kLayerTypes);
  const std::vector<bool> layers = types ? stated_layers(*types, model.layers) : std::move(usual);
  if (std::none_of(layers.begin(), layers.end(), [](bool with) { return with; })) return;
  const auto turn = turn_of(layers);
  if (!turn)
    (types ? *types : size)
        .fail(
            "expected layers in equal turns of some with a window and some without, got another "
            "order of layers");
  LayerFeatures& layer = model.layer;
  layer.window = tokens;
  layer.full_layers_first = !layers.front();
  layer.full_layers = layer.full_layers_first ? turn->first : turn->then;
  if (layer.full_layers > 0)
    layer.window_layers = layer.full_layers_first ? turn->then : turn->first;
}

}  // namespace zplan
