#include "planner/cli/frame/sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "planner/cli/frame/output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {

void Sheet::fact(std::string_view key, Value value) {
  const auto same = std::ranges::find(facts_, key, [](const auto& fact) { return fact.first; });
  if (same == facts_.end())
    facts_.emplace_back(key, std::move(value));
  else
    same->second = std::move(value);
}

Sheet::Sheet(std::initializer_list<Fact> facts) { this->facts(facts); }

Sheet::Sheet(std::string_view schema) { fact("schema", schema); }

void Sheet::facts(std::initializer_list<Fact> facts) {
  for (const Fact& said : facts) fact(said.key, said.value);
}

void Sheet::say(Form form, Words words, std::size_t indent) {
  print(paragraph(filled(form, words), indent));
}

void Sheet::entry(std::string_view label, Form form, Words words) {
  const std::string lines = wrap(filled(form, words), kScreenWidth, kLabelWidth, kLabelWidth);
  print(fmt::format("{:<{}}{}\n", label, kLabelWidth, lines));
}

void Sheet::heading(Form form) { print("\n" + filled(form) + "\n"); }

void Sheet::show(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) print((*this)[key].words);
}

void Sheet::show_apart(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (!(*this)[key].words.empty()) print("\n");
    show({key});
  }
}

void Sheet::labelled(std::string_view label, std::string_view lines) {
  if (!lines.empty()) print(fmt::format("{:<{}}{}", label, kLabelWidth, lines.substr(kLabelWidth)));
}

void Sheet::table(std::string_view key, const Table& rows, std::size_t indent) {
  fact(key, rows.json());
  print(rows.text(indent));
}

const Value* Sheet::find(std::string_view key) const {
  for (const auto& [known, value] : facts_)
    if (known == key) return &value;
  return nullptr;
}

const Value& Sheet::operator[](std::string_view key) const {
  const Value* const value = find(key);
  ZPLAN_ASSERT(value != nullptr);
  return *value;
}

void Sheet::print(std::string_view text) { text_ += text; }

Sheet::operator Value() const { return {as_json(json()), text_}; }

std::string Sheet::json() const {
  std::string out;
  for (const auto& [key, value] : facts_)
    if (!value.is_left_out()) out += (out.empty() ? "" : ",") + Value(key).json + ':' + value.json;
  return '{' + out + '}';
}

std::string Sheet::filled(Form form, Words words) const {
  std::string out;
  const auto* next = words.begin();
  std::string_view rest = form.text;
  for (std::size_t open = 0; (open = rest.find('{')) != std::string_view::npos;) {
    const std::size_t close = rest.find('}', open);
    const std::string_view key = rest.substr(open + 1, close - open - 1);
    ZPLAN_ASSERT(!key.empty() || next != words.end());
    out += rest.substr(0, open);
    out += key.empty() ? *next++ : (*this)[key].words;
    rest.remove_prefix(close + 1);
  }
  ZPLAN_ASSERT(next == words.end());
  return out.append(rest);
}

void write_answer(const Sheet& answer, bool json) {
  using Json = nlohmann::ordered_json;
  constexpr bool kAsciiOnly = true;  // so that nothing in a name hides or turns what is beside it
  write_stdout(json ? Json::parse(answer.json()).dump(2, ' ', kAsciiOnly) + "\n"
                    : with_coloured_verdict(visible_lines(answer.text())));
}

void write_answer(const Sheet& answer, bool json, const std::function<void()>& write_files) {
  std::exception_ptr unwritten;
  try {
    write_files();
  } catch (const Error&) {
    unwritten = std::current_exception();
  }
  write_answer(answer, json);
  if (unwritten) std::rethrow_exception(unwritten);
}

}  // namespace zplan
