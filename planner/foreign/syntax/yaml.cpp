#include "planner/foreign/syntax/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "planner/core/json_document.h"
#include "planner/core/text.h"
#include "planner/foreign/syntax/text_places.h"

namespace zplan {
namespace {

constexpr std::string_view kTrue[] = {"true", "yes", "on"};
constexpr std::string_view kFalse[] = {"false", "no", "off"};

template <std::size_t kCount>
bool is_one_of(std::string_view word, const std::string_view (&words)[kCount]) {
  return std::ranges::find(words, word) != std::end(words);
}

// Where documents begin. YAML::LoadAll begins them without end behind a stray "," or "]", and so
// nothing is loaded before it is known that there is one.
class DocumentStarts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { starts.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  std::vector<YAML::Mark> starts;
};

// The first two at most.
std::vector<YAML::Mark> document_starts(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts documents;
  while (documents.starts.size() < 2 && parser.HandleNextDocument(documents)) continue;
  return std::move(documents.starts);
}

class YamlConverter {
 public:
  YamlConverter(JsonDocument& document, std::vector<RepeatedKey>* repeated)
      : document_(document), places_(document.text), repeated_(repeated) {}

  JsonValue value(const YAML::Node& node, int depth) {
    const std::size_t at = offset(node.Mark());
    if (depth > kMaxJsonDepth)
      document_.fail(at, "", fmt::format("expected at most {} levels", kMaxJsonDepth));
    if (++values_ > kMostYamlValues)
      document_.fail(at, "",
                     fmt::format("expected at most {} values, aliases followed", kMostYamlValues));
    JsonValue out(at);
    if (node.IsMap()) {
      out.kind = JsonKind::kObject;
      add_members(out, node, depth);
    } else if (node.IsSequence()) {
      out.kind = JsonKind::kArray;
      for (const YAML::Node& item : node) out.items.push_back(value(item, depth + 1));
    } else if (node.IsScalar()) {
      resolve(out, node);
    }
    return out;
  }

  std::size_t offset(const YAML::Mark& mark) const {
    return mark.is_null() ? 0 : places_.offset(mark.line, mark.column);
  }

 private:
  static void resolve(JsonValue& out, const YAML::Node& node) {
    const std::string& word = node.Scalar();
    out.kind = JsonKind::kString;
    out.text = word;
    if (node.Tag() == "!") return;  // in quotes
    const std::string lower = to_lower(word);
    if (word.empty() || word == "~" || lower == "null") {
      out.kind = JsonKind::kNull;
    } else if (is_one_of(lower, kTrue) || is_one_of(lower, kFalse)) {
      out.kind = JsonKind::kBoolean;
      out.boolean = is_one_of(lower, kTrue);
    } else if (std::string number = json_number(word); !number.empty()) {
      out.kind = JsonKind::kNumber;
      out.text = std::move(number);
    }
  }

  static bool has(const JsonValue& object, const std::string& key) {
    return std::ranges::any_of(object.members, [&](const JsonMember& m) { return m.key == key; });
  }

  void drop(JsonValue& object, const std::string& key, std::size_t again) {
    if (repeated_ == nullptr)
      document_.fail(again, "",
                     fmt::format("expected each key once, got {} again", in_quotes(key)));
    repeated_->push_back({document_.location(again), key});
    std::erase_if(object.members, [&](const JsonMember& member) { return member.key == key; });
  }

  // What is merged yields to what is said in place.
  void add_members(JsonValue& out, const YAML::Node& node, int depth) {
    std::vector<JsonValue> merged;
    for (const auto& pair : node) {
      const YAML::Node &key = pair.first, &item = pair.second;
      const std::size_t at = offset(key.Mark());
      if (!key.IsScalar()) document_.fail(at, "", "expected a key that is a word");
      if (key.Scalar() == "<<") {
        JsonValue other = value(item, depth + 1);
        if (other.kind == JsonKind::kArray)
          std::ranges::move(other.items, std::back_inserter(merged));
        else
          merged.push_back(std::move(other));
        continue;
      }
      if (has(out, key.Scalar())) drop(out, key.Scalar(), at);
      out.members.push_back({key.Scalar(), at, value(item, depth + 1)});
    }
    for (JsonValue& other : merged) {
      if (other.kind != JsonKind::kObject)
        document_.fail(other.offset, "", "expected a mapping to merge");
      for (JsonMember& member : other.members)
        if (!has(out, member.key)) out.members.push_back(std::move(member));
    }
  }

  JsonDocument& document_;
  TextPlaces places_;
  std::vector<RepeatedKey>* repeated_;
  std::size_t values_ = 0;
};

}  // namespace

JsonNode parse_yaml(std::string text, std::string name, std::vector<RepeatedKey>* repeated) {
  auto document = std::make_shared<JsonDocument>();
  document->name = std::move(name);
  document->text = std::move(text);
  check_config_text(*document);
  YamlConverter converter(*document, repeated);
  try {
    const std::vector<YAML::Mark> starts = document_starts(document->text);
    if (starts.size() > 1)
      document->fail(converter.offset(starts[1]), "", "expected one document, got another");
    if (!starts.empty()) document->root = converter.value(YAML::Load(document->text), 1);
  } catch (const YAML::Exception& error) {
    document->fail(converter.offset(error.mark), "",
                   fmt::format("expected YAML: {}", visible(error.msg)));
  }
  return {document, &document->root};
}

}  // namespace zplan
