#include "planner/cli/frame/table.h"

#include <algorithm>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::size_t kGap = 2;

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
}

}  // namespace

Table::Table(std::vector<Align> columns, std::vector<std::string> titles)
    : columns_(std::move(columns)) {
  if (!titles.empty()) row(std::move(titles));
}

void Table::row(std::vector<std::string> cells) {
  ZPLAN_ASSERT(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t indent) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& cells : rows_) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(cells[i]));
    }
  }
  std::string out;
  for (const auto& cells : rows_) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - width_of(cells[i]), ' ');
      line += columns_[i] == Align::kLeft ? cells[i] + padding : padding + cells[i];
      line.append(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string wrap(const std::vector<std::string>& pieces, std::size_t width, std::size_t indent,
                 std::size_t used) {
  std::string out;
  std::size_t column = used;
  bool first = true;  // on its line
  for (const std::string& piece : pieces) {
    if (!first && column + 1 + width_of(piece) > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
      first = true;
    }
    out += (first ? "" : " ") + piece;
    column += width_of(piece) + (first ? 0 : 1);
    first = false;
  }
  return out;
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent, std::size_t used) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return wrap(words, width, indent, used);
}

}  // namespace zplan
