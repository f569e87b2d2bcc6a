#include "planner/foreign/hugging_face/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/embedded_defaults.h"
#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/positions.h"
#include "planner/foreign/hugging_face/spellings.h"
#include "planner/foreign/hugging_face/vision_part.h"

namespace zplan {
namespace {

constexpr std::int64_t kUsualSequence = 8192;     // [assumed] tokens
constexpr std::int64_t kUsualBatch = 4'194'304;   // [assumed] tokens per step
constexpr std::int64_t kMostSequences = 1 << 20;  // per step

// Read once: a search writes thousands of configurations.
const JsonNode& all_defaults() {
  static const JsonNode kDefaults = [] {
    const EmbeddedFile& file = embedded_hugging_face().front();
    return parse_json(std::string(file.text), std::string(file.name))
        .object()
        .member("model_types");
  }();
  return kDefaults;
}

[[noreturn]] void refuse_type(const JsonNode& node, const std::string& type, bool has_code) {
  const std::string_view why = refused_family(type);
  if (!why.empty())
    node.fail(
        fmt::format("expected a model that can be planned, got {}: {}", in_quotes(type), why));
  const std::vector<std::string> all = hugging_face_types();
  node.fail(fmt::format("expected one of {}, got {}{}{}", joined(all, ", "), in_quotes(type),
                        did_you_mean(type, all),
                        has_code ? "; its own code (auto_map) would have to be run" : ""));
}

// The text part of a type with towers is of type `text` where it does not say its own.
struct TextPart {
  std::string_view type, text;
};
constexpr TextPart kTextParts[] = {
    {"gemma3", "gemma3_text"},         {"kimi_k25", "kimi_k2"},
    {"llama4", "llama4_text"},         {"llava", "llama"},
    {"llava_next", "llama"},           {"mistral3", "mistral"},
    {"qwen2_5_vl", "qwen2_5_vl_text"}, {"qwen2_vl", "qwen2_vl_text"},
    {"qwen3_vl", "qwen3_vl_text"},     {"qwen3_vl_moe", "qwen3_vl_moe_text"},
};

// The sizes are in this object, and are of this type.
struct SizedPart {
  JsonObject object;
  JsonNode type_node;
  std::string type;
  std::vector<std::string> towers{};  // beside it in the file
};

bool is_there(JsonObject& object, std::string_view key) {
  const auto node = object.optional_member(key);
  return node && !node->is_null();
}

// The whole file, or the text part of a model that sees or hears, too.
SizedPart sized_part(const JsonNode& root, std::vector<std::string>& notes) {
  JsonObject whole = root.object();
  const JsonNode node = whole.member("model_type");
  const std::string type = node.non_empty_string();
  if (const std::string_view why = refused_family(type); !why.empty())
    refuse_type(node, type, false);
  std::vector<std::string> towers;
  for (const char* tower : {"vision_config", "audio_config"})
    if (is_there(whole, tower)) towers.emplace_back(tower);
  const auto text = whole.optional_member("text_config");
  if (!text || text->is_null()) return {whole, node, type, std::move(towers)};
  if (towers.empty()) notes.emplace_back("text_config alone is read, and nothing beside it");
  JsonObject part = text->object();
  if (const auto own = part.optional_member("model_type"))
    return {part, *own, own->non_empty_string(), std::move(towers)};
  for (const TextPart& row : kTextParts)
    if (row.type == type) return {part, node, std::string(row.text), std::move(towers)};
  text->fail("expected a \"model_type\" of the text part, got none");
}

// Unless it is the number of learned positions.
void assume_sequence(ConfigKeys& keys, ModelConfig& model, std::vector<Assumption>& assumed) {
  const auto most = keys.find(spelt::kMostTokens);
  const std::int64_t before = unstretched_positions(keys);
  if (model.sequence > 0) return;
  const std::int64_t there = most ? whole_number(*most, 1, std::int64_t{1} << 40) : kUsualSequence;
  if (most && model.position == Position::kRope) model.trained_positions = there;
  model.sequence = std::min(kUsualSequence, there);
  if (before > 0) model.sequence = std::min(model.sequence, before);
  const std::string why = before == model.sequence ? "the positions before they are stretched"
                          : there == model.sequence
                              ? "all positions that it has"
                              : fmt::format("of {} positions that it has", there);
  model.field_sources.emplace_back("sequence", "assumed: " + why);
  assumed.push_back({"/batch/sequence",
                     fmt::format("sequence assumed: {} tokens, {} (--seq)", model.sequence, why)});
}

void assume_batch(ModelConfig& model, std::vector<Assumption>& assumed) {
  const std::int64_t fitting = std::max<std::int64_t>(1, kUsualBatch / model.sequence);
  const auto sequences =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(fitting)));
  model.global_batch = std::min(kMostSequences, sequences);
  const std::string why = "4M tokens per step";
  model.field_sources.emplace_back("global_batch", "assumed: " + why);
  assumed.push_back(
      {"/batch/global_batch", fmt::format("global batch assumed: {} sequences, {} (--global-batch)",
                                          model.global_batch, why)});
}

// A tower in front of the text part, of one image for each sequence.
void read_towers(const JsonNode& root, std::vector<std::string> towers, HuggingFaceModel& out) {
  JsonObject whole = root.object();
  const std::string type = whole.member("model_type").non_empty_string();
  out.model.vision = read_vision_part(type, whole, out.model);
  if (out.model.vision) {
    std::erase(towers, "vision_config");
    const VisionShape& vision = *out.model.vision;
    out.assumed.push_back(
        {"", fmt::format("images assumed: one of {} patches for each sequence, {} tokens of it "
                         "(vision_images of what models --template prints; without vision_config "
                         "the text part alone "
                         "is read)",
                         vision.patches, vision.tokens())});
  }
  if (!towers.empty())
    out.left_out.push_back(fmt::format("left out: {} and what joins {} to the text part",
                                       joined(towers, " and "),
                                       towers.size() == 1 ? "it" : "them"));
}

void note_dropout(ConfigKeys& keys, std::vector<std::string>& notes) {
  double most = 0;
  const auto take = [&](std::string_view key) {
    if (const auto node = keys.stated({key})) most = std::max(most, node->number(0, 1));
  };
  for (const std::string_view key : spelt::kDropout) take(key);
  take(spelt::kActivationDropout);
  if (most > 0)
    notes.push_back(
        fmt::format("its dropout of up to {} is a decision of the plan (--dropout)", most));
}

void note_files(ConfigKeys& keys, std::vector<std::string>& notes) {
  if (const auto weights = keys.stated({"quantization_config"}))
    notes.emplace_back(
        "quantization_config is left out: parameters have the precision of the plan");
  if (const auto code = keys.stated({"auto_map"}))
    notes.emplace_back("its own code (auto_map) is not run: read as the class of its model_type");
  const std::vector<std::string> unread = keys.unread();
  if (!unread.empty())
    notes.push_back(fmt::format("unknown and left out: {}", visible(joined(unread, ", "))));
}

}  // namespace

std::vector<std::string> hugging_face_types() { return family_types(); }

JsonObject family_defaults(const std::string& model_type) {
  JsonObject all = all_defaults().object();
  const Family* const family = find_family(model_type);
  if (const auto own = all.optional_member(model_type)) return own->object();
  return all.member(family == nullptr ? model_type : family->like).object();
}

HuggingFaceModel read_hugging_face(const JsonNode& root, const std::string& file,
                                   const std::string& name) {
  HuggingFaceModel out;
  const SizedPart part = sized_part(root, out.left_out);
  const std::string& type = part.type;
  const Family* const family = find_family(type);
  if (family == nullptr)
    refuse_type(part.type_node, type, root.object().optional_member("auto_map").has_value());
  ConfigKeys keys(part.object, family_defaults(type), root.object());
  ModelConfig& model = out.model;
  model.name = name;
  model.source = fmt::format("{}, as transformers reads it: model_type {}", visible(file), type);
  family->read(keys, model);
  read_towers(root, part.towers, out);
  assume_sequence(keys, model, out.assumed);
  assume_batch(model, out.assumed);
  note_dropout(keys, out.left_out);
  out.left_out.insert(out.left_out.end(), keys.notes().begin(), keys.notes().end());
  note_files(keys, out.left_out);
  try {
    validate(model);
  } catch (const Error& error) {
    root.fail(error.what());
  }
  return out;
}

}  // namespace zplan
