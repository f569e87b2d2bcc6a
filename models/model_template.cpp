#include "models/model_template.h"

#include <fmt/format.h>

#include <variant>

#include "planner/core/hash.h"
#include "planner/core/json_edit.h"

namespace zplan {
namespace {

std::string value_text(const FeatureValue& value) {
  struct Writer {
    std::string operator()(bool on) const { return on ? "true" : "false"; }
    std::string operator()(std::string_view word) const { return json_string(word); }
    std::string operator()(const std::string& words) const { return json_string(words); }
    std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
  };
  return std::visit(Writer{}, value);
}

// Heads of a latent have sizes of other names, and others usually one that follows.
bool is_stated(const ModelConfig& model, std::string_view field) {
  if (field == "kv_heads") return !model.latent;
  if (field == "head_size") return model.own_head_size > 0;
  return true;
}

// {"a": "b", ..}, or ["a", ..]
template <typename Items, typename Text>
std::string list_text(const Items& items, std::string_view brackets, std::string_view gap,
                      const Text& text) {
  std::string out;
  for (const auto& item : items)
    out += fmt::format("{}{}{}", out.empty() ? "" : ",", gap, text(item));
  return fmt::format("{}{}{}", brackets[0], out, brackets[1]);
}

}  // namespace

std::string model_template(const ModelConfig& model) {
  std::string out = "{\n  \"schema\": \"zplan.model/1\"";
  const auto add = [&out](std::string_view key, const std::string& text) {
    out += fmt::format(",\n  \"{}\": {}", key, text);
  };
  add("name", json_string(model.name));
  if (!model.aliases.empty())
    add("aliases",
        list_text(model.aliases, "[]", "", [](const auto& a) { return json_string(a); }));
  add("architecture", json_string(name(model.architecture)));
  for (const ModelField& field : fields_of(model))
    if (is_stated(model, field.name)) add(field.name, value_text(field.value));
  if (model.trained_positions > 0)
    add("trained_positions", fmt::format("{}", model.trained_positions));
  add("source", json_string(model.source));
  if (!model.field_sources.empty())
    add("sources", list_text(model.field_sources, "{}", "\n    ", [](const auto& pair) {
          return fmt::format("{}: {}", json_string(pair.first), json_string(pair.second));
        }));
  return out + "\n}\n";
}

std::string model_hash(const ModelConfig& model) {
  ModelConfig bare = model;
  bare.name.clear();
  bare.source.clear();
  bare.aliases.clear();
  bare.trained_positions = 0;
  bare.field_sources.clear();
  return to_hex(fnv1a128(model_template(bare)));
}

}  // namespace zplan
