// Table: columns of text, padded with spaces, for people. Widths count characters (code points).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

enum class Align : std::uint8_t { kLeft, kRight };

class Table {
 public:
  // One per column; without titles the table has no heading line.
  explicit Table(std::vector<Align> columns, std::vector<std::string> titles = {});

  void row(std::vector<std::string> cells);  // as many as columns

  // Every line starts with `indent` spaces, columns are two apart; no spaces at line ends.
  std::string text(std::size_t indent = 0) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Puts pieces on lines of at most `width` characters, a space between two; lines after the first
// start with `indent` spaces. `used`: characters already on the first line. No line break at the
// end.
std::string wrap(const std::vector<std::string>& pieces, std::size_t width, std::size_t indent,
                 std::size_t used);
// The pieces are the words of the text.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent, std::size_t used);

}  // namespace zplan
