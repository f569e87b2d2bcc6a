#include "planner/cli/frame/table.h"

#include <algorithm>
#include <utility>

#include "planner/cli/frame/words.h"
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

Column::Column(const char* both) : key(both), title(both) {
  if (const std::size_t colon = key.find(':'); colon != std::string::npos) {
    title = key.substr(std::min(colon + 2, key.size()));
    key.resize(colon);
  }
}

Value Table::row(const Sheet& facts, bool shown) {
  if (shown) {
    Row& row = rows_.emplace_back();
    for (const Column& column : columns_) {
      const Value* const value = facts.find(column.key);
      row.cells.push_back(value != nullptr ? *value : left_out());
    }
  }
  Value object = as_json(facts.json());
  rows_json_.append(object);
  return object;
}

void Table::words_row(std::vector<Value> cells) {
  ZPLAN_ASSERT(cells.size() == columns_.size());
  rows_.push_back({std::move(cells), ""});
}

std::string Table::text(std::size_t indent) const {
  if (rows_.empty()) return "";
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  std::vector<Value> titles;
  bool titled = false;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.emplace_back(columns_[i].title);
    titled = titled || !columns_[i].title.empty();
    widths.push_back(width_of(columns_[i].title));
    right.push_back(false);
    for (const Row& row : rows_) {
      widths[i] = std::max(widths[i], width_of(row.cells[i].words));
      if (row.cells[i].to_the_right) right[i] = true;
    }
  }
  const auto line = [&](const std::vector<Value>& cells) {
    std::string out(indent, ' ');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string& words = cells[i].words;
      const std::string padding(widths[i] - width_of(words), ' ');
      out += right[i] ? padding + words : words + padding;
      out.append(kGap, ' ');
    }
    return out.erase(out.find_last_not_of(' ') + 1) + '\n';
  };
  std::string out = titled ? line(titles) : "";
  for (const Row& row : rows_) out += line(row.cells) + row.below;
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
    std::size_t end = std::min(text.find(' ', begin), text.size());
    if (text.substr(end).starts_with(" %")) end = std::min(text.find(' ', end + 1), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return wrap(words, width, indent, used);
}

std::string paragraph(std::string_view text, std::size_t indent) {
  return std::string(indent, ' ') + wrap(text, kScreenWidth, indent + 2, indent) + "\n";
}

}  // namespace zplan
