#include "planner/core/json_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/core/json_document.h"

namespace zplan {
namespace {

constexpr std::size_t kLineWidth = 100;  // of an array or a flat object that stays in one line

bool is_one_number(const JsonValue& value) {
  return std::any_of(value.members.begin(), value.members.end(),
                     [](const JsonMember& member) { return member.key == "value"; });
}

JsonMember* find(JsonValue& object, std::string_view key) {
  for (JsonMember& member : object.members)
    if (member.key == key) return &member;
  return nullptr;
}

void move_behind(JsonValue& value, std::size_t offset) {
  value.offset += offset;
  for (JsonValue& item : value.items) move_behind(item, offset);
  for (JsonMember& member : value.members) {
    member.offset += offset;
    move_behind(member.value, offset);
  }
}

bool merges(const JsonValue& value) {
  return value.kind == JsonKind::kObject && !is_one_number(value);
}

void merge(JsonValue& into, const JsonValue& changes) {
  into.offset = changes.offset;
  for (const JsonMember& change : changes.members) {
    JsonMember* const old = find(into, change.key);
    if (change.value.kind == JsonKind::kNull) {
      std::erase_if(into.members, [&](const JsonMember& m) { return m.key == change.key; });
    } else if (old == nullptr) {
      into.members.push_back(change);
    } else if (merges(old->value) && merges(change.value)) {
      old->offset = change.offset;
      merge(old->value, change.value);
    } else {
      *old = change;
    }
  }
}

std::string in_one_line(const JsonValue& value) {
  std::string out;
  switch (value.kind) {
    case JsonKind::kNull:
    case JsonKind::kMissing:
      return "null";
    case JsonKind::kBoolean:
      return value.boolean ? "true" : "false";
    case JsonKind::kNumber:
      return value.text;
    case JsonKind::kString:
      return json_string(value.text);
    case JsonKind::kArray:
      for (const JsonValue& item : value.items)
        out += (out.empty() ? "" : ", ") + in_one_line(item);
      return '[' + out + ']';
    case JsonKind::kObject:
      for (const JsonMember& member : value.members)
        out +=
            (out.empty() ? "" : ", ") + json_string(member.key) + ": " + in_one_line(member.value);
      return '{' + out + '}';
  }
  return out;
}

bool has_parts(const JsonValue& value) { return !value.items.empty() || !value.members.empty(); }

// Whether an object or array of other than single values.
bool is_nested(const JsonValue& value) {
  return std::any_of(value.members.begin(), value.members.end(),
                     [](const JsonMember& member) { return has_parts(member.value); });
}

void write(const JsonValue& value, std::size_t indent, std::string& out) {
  const bool is_object = value.kind == JsonKind::kObject;
  if (!has_parts(value) || (is_one_number(value) && !is_nested(value))) {
    out += in_one_line(value);
    return;
  }
  if (indent > 0 && !is_nested(value)) {
    if (std::string line = in_one_line(value); line.size() <= kLineWidth) {
      out += line;
      return;
    }
  }
  const std::string gap = "\n" + std::string(indent + 2, ' ');
  out += is_object ? '{' : '[';
  for (std::size_t i = 0; i < value.members.size(); ++i) {
    out += (i > 0 ? "," : "") + gap + json_string(value.members[i].key) + ": ";
    write(value.members[i].value, indent + 2, out);
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    out += (i > 0 ? "," : "") + gap;
    write(value.items[i], indent + 2, out);
  }
  out += "\n" + std::string(indent, ' ') + (is_object ? '}' : ']');
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string ascii_json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

JsonNode written_over(const JsonNode& base, const JsonNode& changes) {
  auto document = std::make_shared<JsonDocument>();
  document->name = changes.document_->name;
  document->text = changes.document_->text;
  document->first_line = changes.document_->first_line;
  document->base = base.document_;
  document->root = *base.value_;
  move_behind(document->root, document->text.size() + 1);
  if (merges(document->root) && merges(*changes.value_)) {
    merge(document->root, *changes.value_);
  } else {
    document->root = *changes.value_;
  }
  const JsonValue* const root = &document->root;
  return JsonNode(std::move(document), root);
}

std::string json_text(const JsonNode& node) {
  std::string out;
  write(*node.value_, 0, out);
  return out;
}

}  // namespace zplan
