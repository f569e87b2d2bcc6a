// The template and the schema of a record, from the rows of run_keys.h.
#include <fmt/format.h>

#include "planner/core/json_edit.h"
#include "planner/core/text.h"
#include "planner/validate/run_form.h"
#include "planner/validate/run_tree.h"

namespace zplan {
namespace {

constexpr int kIndent = 2;

// Members of an object that are values or objects.
std::vector<RunMember> values_of(const std::string& pointer) {
  std::vector<RunMember> out = run_members(pointer);
  std::erase_if(out, [](const RunMember& member) { return member.key == nullptr; });
  return out;
}
std::vector<RunMember> objects_of(const std::string& pointer) {
  std::vector<RunMember> out = run_members(pointer);
  std::erase_if(out, [](const RunMember& member) { return member.key != nullptr; });
  return out;
}
bool is_shown(const std::string& pointer) { return has_below(pointer, &RunKey::shown); }

std::string comment(const RunKey& key) {
  std::string out(key.meaning);
  if (!key.words.empty()) out += fmt::format(" ({})", joined(parts_of(key.words), ", "));
  if (key.use == RunKeyUse::kUnmodelled) out += "; not modelled";
  return out;
}

void show_object(std::string& out, const std::string& prefix, int depth);

// Keys of an object that the template has no use for: comments all of them.
void hide(std::string& out, const std::string& prefix, int depth) {
  const std::string blank(static_cast<std::size_t>(depth) * kIndent, ' ');
  for (const RunMember& value : values_of(prefix))
    if (!value.key->shown)
      out += fmt::format("{}# {}: {}   {}\n", blank, json_string(value.name), value.key->example,
                         comment(*value.key));
  for (const RunMember& object : objects_of(prefix)) {
    if (is_shown(object.pointer)) continue;
    out += fmt::format("{}# {}: an object of\n", blank, json_string(object.name));
    hide(out, object.pointer, depth + 1);
  }
}

void show_object(std::string& out, const std::string& prefix, int depth) {
  const std::string blank(static_cast<std::size_t>(depth) * kIndent, ' ');
  std::string before;  // what the next key follows
  const auto next = [&] {
    out += before;
    before = ",\n";
  };
  if (prefix.empty()) {
    out += fmt::format("{}\"schema\": {}", blank, json_string(kRunTag));
    before = ",\n";
  }
  for (const RunMember& value : values_of(prefix)) {
    if (!value.key->shown) continue;
    next();
    out += fmt::format("{}# {}\n{}{}: {}", blank, comment(*value.key), blank,
                       json_string(value.name), value.key->example);
  }
  for (const RunMember& object : objects_of(prefix)) {
    if (!is_shown(object.pointer)) continue;
    next();
    out += fmt::format("{}{}: {{\n", blank, json_string(object.name));
    show_object(out, object.pointer, depth + 1);
    out += blank + "}";
  }
  out += "\n";
  hide(out, prefix, depth);
}

std::string number(double value) { return fmt::format("{}", value); }

std::string words_of(const RunKey& key) {
  std::vector<std::string> quoted;
  for (const std::string& word : parts_of(key.words)) quoted.push_back(json_string(word));
  return "[" + joined(quoted, ", ") + "]";
}

std::string texts(const RunKey& key) {
  return key.words.empty() ? R"("type": "string", "minLength": 1)" : "\"enum\": " + words_of(key);
}

std::string integers(const RunKey& key) {
  return fmt::format(R"("type": "integer", "minimum": {}, "maximum": {})",
                     static_cast<std::int64_t>(key.least), static_cast<std::int64_t>(key.most));
}

std::string type_of(const RunKey& key) {
  switch (key.kind) {
    case RunKeyKind::kText:
      return texts(key);
    case RunKeyKind::kFlag:
      return R"("type": "boolean")";
    case RunKeyKind::kCount:
      return integers(key);
    case RunKeyKind::kNumber:
      return fmt::format(R"("type": "number", "minimum": {}, "maximum": {})", number(key.least),
                         number(key.most));
    case RunKeyKind::kTexts:
      return fmt::format(R"("type": "array", "items": {{{}}})", texts(key));
    case RunKeyKind::kCounts:
      return fmt::format(R"("type": "array", "items": {{{}}})", integers(key));
    case RunKeyKind::kPrinted:
      return R"("type": ["number", "string"])";
  }
  return {};
}

// A key that need not be there may be null, too.
std::string schema_of(const RunKey& key) {
  const std::string meaning = json_string(key.meaning);
  if (key.required) return fmt::format("{{{}, \"description\": {}}}", type_of(key), meaning);
  return fmt::format("{{\"anyOf\": [{{{}}}, {{\"type\": \"null\"}}], \"description\": {}}}",
                     type_of(key), meaning);
}

void describe_object(std::string& out, const std::string& prefix, int depth) {
  const std::string blank(static_cast<std::size_t>(depth), ' ');
  std::vector<std::string> required;
  std::string between;
  out += blank + "\"type\": \"object\",\n" + blank + "\"properties\": {\n";
  if (prefix.empty()) {
    out += fmt::format("{} \"schema\": {{\"const\": {}}}", blank, json_string(kRunTag));
    required.emplace_back("\"schema\"");
    between = ",\n";
  }
  for (const RunMember& value : values_of(prefix)) {
    const std::string name = json_string(value.name);
    out += fmt::format("{}{} {}: {}", between, blank, name, schema_of(*value.key));
    if (value.key->required) required.push_back(name);
    between = ",\n";
  }
  for (const RunMember& object : objects_of(prefix)) {
    out += fmt::format("{}{} {}: {{\n", between, blank, json_string(object.name));
    describe_object(out, object.pointer, depth + 2);
    out += blank + " }";
    if (has_below(object.pointer, &RunKey::required)) required.push_back(json_string(object.name));
    between = ",\n";
  }
  out += fmt::format("\n{0}}},\n{0}\"required\": [{1}],\n{0}\"additionalProperties\": false\n",
                     blank, joined(required, ", "));
}

}  // namespace

std::string run_template() {
  std::string out =
      "# A training run as zplan validate, --anchor and calibrate read it. Lines that begin with "
      "#\n"
      "# are comments; a key that is left out is one that nobody knows.\n{\n";
  show_object(out, "", 1);
  return out + "}\n";
}

std::string run_schema() {
  std::string out = fmt::format(
      "{{\n \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n \"$id\": {0},\n"
      " \"title\": \"Read by zplan: a training run, zplan.runs/2, one record each\",\n",
      json_string(kRunTag));
  describe_object(out, "", 1);
  return out + "}\n";
}

}  // namespace zplan
