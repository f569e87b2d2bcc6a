#include "hwprofiles/csv_table.h"

#include <fmt/format.h>

#include <charconv>

#include "hwprofiles/embedded_tables.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void split(std::string_view line, std::vector<std::string_view>& out) {
  for (;;) {
    const std::size_t comma = line.find(',');
    out.push_back(line.substr(0, comma));
    if (comma == line.npos) return;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

CsvTable::CsvTable(std::string_view text, std::string name) : name_(std::move(name)) {
  split(next_line(text), columns_);
  for (std::size_t line = 2; !text.empty(); ++line) {
    const std::size_t before = fields_.size();
    split(next_line(text), fields_);
    if (const std::size_t got = fields_.size() - before; got != columns_.size()) {
      throw_bad_input(
          fmt::format("{}:{}: expected {} fields, got {}", name_, line, columns_.size(), got));
    }
  }
}

std::size_t CsvTable::column(std::string_view name) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i] == name) return i;
  }
  throw_bad_input(fmt::format("{}:1: expected a column \"{}\", got none", name_, name));
}

double CsvTable::number(std::size_t row, std::size_t column) const {
  const std::string_view field = text(row, column);
  double value = 0;
  const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (status != std::errc{} || end != field.data() + field.size()) {
    throw_bad_input(fmt::format("{}:{}: {}: expected a number, got \"{}\"", name_, row + 2,
                                columns_[column], field));
  }
  return value;
}

std::optional<CsvTable> find_table(std::string_view name) {
  const std::string file = fmt::format("hwprofiles/kernels/{}.csv", name);
  for (const EmbeddedFile& embedded : embedded_tables()) {
    if (embedded.name == file) return CsvTable(embedded.text, file);
  }
  return std::nullopt;
}

}  // namespace zplan
