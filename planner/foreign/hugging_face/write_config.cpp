#include "planner/foreign/hugging_face/write_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "planner/core/error.h"
#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/hugging_face.h"
#include "planner/foreign/hugging_face/spellings.h"
#include "planner/foreign/hugging_face/written_keys.h"

namespace zplan {
namespace {

constexpr std::string_view kBiasRate = "router_bias_rate", kFirstType = "llama";

std::map<std::string_view, std::string> compared_fields(ModelConfig model) {
  model.layer.activation = plain_activation(model);
  std::map<std::string_view, std::string> fields;
  for (const ModelField& field : fields_of(model))
    fields[field.name] =
        std::visit([](const auto& value) { return fmt::format("{}", value); }, field.value);
  fields.erase("global_batch");
  fields.erase(kBiasRate);
  if (model.position != Position::kLearned) fields.erase("sequence");
  return fields;
}

std::string word_of(const std::map<std::string_view, std::string>& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "none" : found->second;
}

// What is written as of this type, read again; nothing: it is refused.
std::optional<HuggingFaceModel> read_again(const std::string& text, const ModelConfig& model) {
  try {
    return read_hugging_face(parse_json(text, "config.json"), "config.json", model.name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The most common family first, then in the order of the table.
std::vector<std::string> types_in_order() {
  std::vector<std::string> types = family_types();
  std::erase_if(types, [](const std::string& type) { return !find_family(type)->like.empty(); });
  std::ranges::stable_partition(types, [](const std::string& type) { return type == kFirstType; });
  return types;
}

// What the class has not, or has of itself.
void note_class(const ModelConfig& model, bool drops, WrittenConfig& config) {
  const auto note = [&](std::string sentence) { config.notes.push_back(std::move(sentence)); };
  if (model.moves_selection_bias())
    note(fmt::format("{} is not in a config.json: the bias stays as it begins", kBiasRate));
  if (config.model_type == "t5" && !model.tied_embeddings)
    note("transformers 5 ties the embeddings of its T5, whatever the file says");
  JsonObject defaults = family_defaults(config.model_type);
  const auto has = [&](std::string_view key) { return defaults.optional_member(key).has_value(); };
  if (drops && std::ranges::count_if(spelt::kDropout, has) == 1 && has("attention_dropout"))
    note("dropout of attention alone: the class has no other");
}

}  // namespace

std::vector<std::string> config_differences(const ModelConfig& wanted, const ModelConfig& got) {
  const auto ours = compared_fields(wanted), theirs = compared_fields(got);
  std::vector<std::string> all;
  const auto compare = [&](std::string_view name) {
    const std::string want = word_of(ours, name), have = word_of(theirs, name);
    if (want != have) all.push_back(fmt::format("{} {} and not {}", name, have, want));
  };
  for (const auto& [name, value] : ours) compare(name);
  for (const auto& [name, value] : theirs)
    if (!ours.contains(name)) compare(name);
  return all;
}

WrittenConfig write_hugging_face(const ModelConfig& model, bool drops) {
  std::optional<WrittenConfig> nearest;
  for (const std::string& type : types_in_order()) {
    WrittenConfig tried{type, written_keys(model, type, family_defaults(type), drops), {}, {}};
    const auto read = read_again(tried.text, model);
    if (!read) continue;
    tried.differences = config_differences(model, read->model);
    tried.notes = read->left_out;
    if (!nearest || tried.differences.size() < nearest->differences.size())
      nearest = std::move(tried);
    if (nearest->differences.empty()) break;
  }
  if (!nearest) return {};
  if (!nearest->differences.empty()) nearest->text.clear();
  note_class(model, drops, *nearest);
  return *std::move(nearest);
}

std::string with_dropout(const std::string& text, bool drops) {
  const std::string type =
      parse_python_json(text, "config.json").object().member("model_type").non_empty_string();
  return with_dropout(text, family_defaults(type), drops);
}

}  // namespace zplan
