// Table: things alike. For people columns padded with spaces, whose widths count characters (code
// points); in JSON an array of objects with all facts of the rows, shown or not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/cli/frame/sheet.h"

namespace zplan {

// The key of the facts that it shows, and its title. As one word: "busy_s: busy", or where both are
// the same "stage".
struct Column {
  Column(std::string_view shown, std::string_view over) : key(shown), title(over) {}
  Column(const char* both);
  std::string key, title;
};

class Table {
 public:
  // A column with a number in it is aligned right; without titles there is no heading line.
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Returns the row's object.
  Value row(const Sheet& facts, bool shown = true);
  // A row that JSON does not have, a value per column.
  void words_row(std::vector<Value> cells);
  // Under the last row that is shown, as it is.
  void below(std::string lines) { rows_.back().below = std::move(lines); }

  const Value& json() const { return rows_json_; }
  // Every line starts with `indent` spaces, columns are two apart; no spaces at line ends. Nothing
  // without rows.
  std::string text(std::size_t indent = 0) const;
  operator Value() const { return {json(), text()}; }

 private:
  struct Row {
    std::vector<Value> cells;
    std::string below;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
  Value rows_json_ = empty_array();
};

// Puts pieces on lines of at most `width` characters, a space between two; lines after the first
// start with `indent` spaces. `used`: characters already on the first line. No line break at the
// end.
std::string wrap(const std::vector<std::string>& pieces, std::size_t width, std::size_t indent,
                 std::size_t used);
// The pieces are the words of the text.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent, std::size_t used);
// Lines of the screen's width that start with `indent` spaces, after the first with two more.
std::string paragraph(std::string_view text, std::size_t indent = 0);

}  // namespace zplan
