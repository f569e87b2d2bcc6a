#include "planner/foreign/syntax/toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <utility>

#include "planner/core/json_document.h"
#include "planner/core/text.h"
#include "planner/foreign/syntax/text_places.h"

namespace zplan {
namespace {

class TomlConverter {
 public:
  explicit TomlConverter(const std::string& text) : places_(text) {}

  std::size_t offset(const toml::source_position& place) const {
    return places_.offset_of_character(static_cast<int>(place.line) - 1,
                                       static_cast<int>(place.column) - 1);
  }

  JsonValue value(const toml::node& node) const {
    JsonValue out(offset(node.source().begin));
    if (const toml::table* table = node.as_table()) {
      out.kind = JsonKind::kObject;
      for (const auto& [key, item] : *table)
        out.members.push_back({std::string(key.str()), offset(key.source().begin), value(item)});
      // The table sorts by key.
      std::ranges::stable_sort(out.members, {}, &JsonMember::offset);
    } else if (const toml::array* array = node.as_array()) {
      out.kind = JsonKind::kArray;
      for (const toml::node& item : *array) out.items.push_back(value(item));
    } else {
      scalar(out, node);
    }
    return out;
  }

 private:
  static void scalar(JsonValue& out, const toml::node& node) {
    if (const auto* boolean = node.as_boolean()) {
      out.kind = JsonKind::kBoolean;
      out.boolean = boolean->get();
    } else if (const auto* integer = node.as_integer()) {
      out.kind = JsonKind::kNumber;
      out.text = fmt::format("{}", integer->get());
    } else if (const auto* number = node.as_floating_point();
               number && std::isfinite(number->get())) {
      out.kind = JsonKind::kNumber;
      out.text = fmt::format("{}", number->get());
    } else if (const auto* string = node.as_string()) {
      out.kind = JsonKind::kString;
      out.text = string->get();
    } else {
      std::ostringstream text;
      text << toml::node_view<const toml::node>(node);
      out.kind = JsonKind::kString;
      out.text = text.str();
    }
  }

  TextPlaces places_;
};

}  // namespace

JsonNode parse_toml(std::string text, std::string name) {
  auto document = std::make_shared<JsonDocument>();
  document->name = std::move(name);
  document->text = std::move(text);
  check_config_text(*document);
  const TomlConverter converter(document->text);
  try {
    document->root = converter.value(toml::parse(document->text));
  } catch (const toml::parse_error& error) {
    document->fail(converter.offset(error.source().begin), "",
                   fmt::format("expected TOML: {}", visible(error.description())));
  }
  return {document, &document->root};
}

}  // namespace zplan
