#include "planner/foreign/syntax/command_line.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "planner/core/json_document.h"
#include "planner/foreign/syntax/shell.h"
#include "planner/foreign/syntax/text_places.h"

namespace zplan {
namespace {

using Words = std::vector<PlacedText>;

bool is_option(const PlacedText& word) {
  return word.text.size() > 2 && word.text.starts_with("--") && word.text[2] != '-';
}
bool is_script(const PlacedText& word) { return word.text.ends_with(".py"); }

// A word of a command within a word still has the quotes that the inner shell takes away.
PlacedText without_quotes(PlacedText word) {
  const std::string& text = word.text;
  const bool is_quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
                         text.back() == text.front();
  if (!is_quoted) return word;
  return {text.substr(1, text.size() - 2), {word.places.begin() + 1, word.places.end() - 1}};
}

// "sh -c" and "eval" have a command in one word. What is substituted, "$(..)", is none.
Words come_apart(const Words& command) {
  Words out;
  for (const PlacedText& word : command) {
    const bool is_command = !word.text.starts_with("$(") && !word.text.starts_with("`") &&
                            (word.text.find(" --") != std::string::npos ||
                             word.text.find("\n--") != std::string::npos ||
                             word.text.find(".py ") != std::string::npos);
    if (!is_command) {
      out.push_back(without_quotes(word));
      continue;
    }
    for (PlacedText& part : split_words(word))
      if (part.text != "\\") out.push_back(without_quotes(std::move(part)));
  }
  return out;
}

// Python reads "008" as 8.
std::string_view without_zeros(std::string_view number) {
  while (number.size() > 1 && number[0] == '0' && number[1] >= '0' && number[1] <= '9')
    number.remove_prefix(1);
  return number;
}

JsonValue value_of(const PlacedText& word, std::size_t begin) {
  JsonValue out(0, JsonKind::kString);
  out.text = word.text.substr(begin);
  out.offset = word.places[std::min(begin, word.places.size() - 1)];
  double number = 0;
  const char* const end = out.text.data() + out.text.size();
  const auto [stop, error] = std::from_chars(out.text.data(), end, number);
  const bool is_number = error == std::errc{} && stop == end &&
                         out.text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  if (!is_number) return out;
  if (std::string as_json = json_number(without_zeros(out.text)); !as_json.empty()) {
    out.kind = JsonKind::kNumber;
    out.text = std::move(as_json);
  }
  return out;
}

JsonValue true_at(std::size_t offset) {
  JsonValue out(offset, JsonKind::kBoolean);
  out.boolean = true;
  return out;
}

// Adds an option, in place of one of that name.
JsonValue& put(JsonValue& object, std::string key, std::size_t offset) {
  std::erase_if(object.members, [&](const JsonMember& member) { return member.key == key; });
  object.members.push_back({std::move(key), offset, true_at(offset)});
  return object.members.back().value;
}

void add_value(JsonValue& option, JsonValue value) {
  if (option.kind == JsonKind::kBoolean) {
    option = std::move(value);
    return;
  }
  if (option.kind != JsonKind::kArray) {
    JsonValue first = std::exchange(option, JsonValue(option.offset, JsonKind::kArray));
    option.items.push_back(std::move(first));
  }
  option.items.push_back(std::move(value));
}

// A variable that is not set, or what a command prints, and nothing besides.
bool is_unknown(std::string_view word) {
  if (word.starts_with('`')) return word.ends_with('`');
  if (word.starts_with("$(")) return word.ends_with(')');
  return word.starts_with('$') && word.find_first_of("/.:") == std::string_view::npos;
}

JsonValue options_of(const Words& words, Words& unknown) {
  JsonValue out(words.empty() ? 0 : words.front().place(), JsonKind::kObject);
  JsonValue* option = nullptr;
  for (const PlacedText& word : words) {
    if (word.text.empty()) continue;
    if (!is_option(word)) {
      // What is not known may be nothing there, or more options.
      const bool has_value = option == nullptr || option->kind != JsonKind::kBoolean;
      if (has_value && is_unknown(word.text))
        unknown.push_back(word);
      else if (option != nullptr)
        add_value(*option, value_of(word, 0));
      continue;
    }
    const std::size_t equals = word.text.find('=');
    option = &put(out, word.text.substr(0, equals), word.place());
    if (equals != std::string::npos && equals + 1 < word.text.size())
      *option = value_of(word, equals + 1);
  }
  return out;
}

JsonValue object_of(const Words& words, Words& unknown) {
  const auto script = std::ranges::find_if(words, is_script);
  const bool has_script = script != words.end();
  JsonValue out(words.front().place(), JsonKind::kObject);
  const Words before(words.begin(), has_script ? script : words.begin());
  out.members.push_back({"launcher", out.offset, options_of(before, unknown)});
  if (has_script) out.members.push_back({"script", script->place(), value_of(*script, 0)});
  const Words after(has_script ? script + 1 : words.begin(), words.end());
  out.members.push_back({"arguments", out.offset, options_of(after, unknown)});
  return out;
}

// A script that others read sets variables to options and starts nothing.
Words options_in_variables(const ShellScript& script) {
  Words out;
  for (const Words& variable : script.variables) {
    Words words = come_apart(variable);
    if (!words.empty() && is_option(words.front()))
      std::ranges::move(words, std::back_inserter(out));
  }
  return out;
}

// Options alone may stand on lines of their own: places stay as they are.
std::string one_command(std::string text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text.compare(first, 2, "--") == 0)
    std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

CommandLine parse_command_line(std::string text, std::string name) {
  auto document = std::make_shared<JsonDocument>();
  document->name = std::move(name);
  document->text = std::move(text);
  check_config_text(*document);
  ScriptFiles files(*document);
  const ShellScript script = read_shell(one_command(document->text), files.sources());
  Words most;
  std::ptrdiff_t options = 0;
  for (const Words& command : script.commands) {
    Words words = come_apart(command);
    const std::ptrdiff_t count = std::ranges::count_if(words, is_option);
    if (count < options || count == 0) continue;
    options = count;
    most = std::move(words);
  }
  if (options == 0) most = options_in_variables(script);
  if (most.empty()) document->fail(0, "", "expected a command with options, \"--..\"");
  Words unknown;
  document->root = object_of(most, unknown);
  document->base = files.documents();
  CommandLine out{{document, &document->root}, {}, std::move(files).found(), {}};
  for (const std::size_t place : script.assumed) out.assumed.push_back(document->location(place));
  for (const PlacedText& word : unknown)
    out.unknown.push_back({document->location(word.place()), word.text});
  return out;
}

}  // namespace zplan
