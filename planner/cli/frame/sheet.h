// Sheet: one answer of the program, described once and written for people or as JSON.
//
//   Sheet out("zplan.sizes/1");
//   out.facts({{"ranks", counted(ranks, "rank")}, {"needed_bytes", needed}});
//   out.say("{ranks} need {needed_bytes} each");  // a line speaks of facts by their keys
//   Table tiers({"tier", "free_bytes: free"});    // columns pick from the facts of the rows
//   tiers.row({{"tier", "gpu"}, {"free_bytes", free}, {"fits", true}});
//   out.table("tiers", tiers);
//   write_answer(out, command.json);
//
// Text comes in the order in which it is said, JSON has its keys in that in which they are first
// named: a fact that is said late is null before.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/cli/frame/value.h"

namespace zplan {

class Table;

struct Fact {
  std::string_view key;
  Value value;
};

// What a line says: in it "{key}" stands for the words of a fact of its sheet, "{}" for the next of
// the words that come with it. Written in the program: braces in what a user typed mean nothing.
struct Form {
  consteval Form(const char* literal) : text(literal) {}
  std::string_view text;
};
using Words = std::initializer_list<std::string_view>;

class Sheet {
 public:
  Sheet(std::initializer_list<Fact> facts = {});
  explicit Sheet(std::string_view schema);

  // Says nothing to people yet. Said again, it keeps its place.
  void fact(std::string_view key, Value value);
  void facts(std::initializer_list<Fact> facts);

  // Lines for people: a paragraph, "Label       text", and a title after an empty line.
  void say(Form form, Words words = {}, std::size_t indent = 0);
  void say(Form form, std::size_t indent) { say(form, {}, indent); }
  void entry(std::string_view label, Form form, Words words = {});
  void heading(Form form);
  void print(std::string_view text);                              // as it is
  void labelled(std::string_view label, std::string_view lines);  // indented by kLabelWidth
  // The words of facts, as they are; apart: after an empty line each, unless they have none.
  void show(std::initializer_list<std::string_view> keys);
  void show_apart(std::initializer_list<std::string_view> keys);
  // Rows as an array of objects, and here as a table, unless it is empty.
  void table(std::string_view key, const Table& rows, std::size_t indent = 0);

  const Value* find(std::string_view key) const;        // null where there is none
  const Value& operator[](std::string_view key) const;  // which must be there
  std::string filled(Form form, Words words = {}) const;
  std::string json() const;  // an object, on one line
  const std::string& text() const { return text_; }
  operator Value() const;

 private:
  std::vector<std::pair<std::string, Value>> facts_;
  std::string text_;
};

// Things alike with a sheet each: an array in JSON, for people one text after the other.
template <typename Things, typename SheetOf>
Value each(const Things& things, SheetOf sheet_of) {
  Value out = empty_array();
  for (const auto& thing : things) {
    const Value sheet = sheet_of(thing);
    out.append(sheet);
    out.words += sheet.words;
  }
  return out;
}

inline constexpr std::size_t kLabelWidth = 12;
inline constexpr std::size_t kIndent = 2;  // of lines below a heading

// To standard output.
void write_answer(const Sheet& answer, bool json);

}  // namespace zplan
