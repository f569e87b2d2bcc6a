// A table of comma-separated values with a header line: the form of hwprofiles/kernels/*.csv.
// No quoting: none of these files has commas in its fields.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

class CsvTable {
 public:
  // `text` outlives the table; `name` stands for it in messages. Throws Error on a line with more
  // or fewer fields than the header.
  CsvTable(std::string_view text, std::string name);

  std::size_t rows() const { return columns_.empty() ? 0 : fields_.size() / columns_.size(); }
  // Throws Error naming the file when there is no such column.
  std::size_t column(std::string_view name) const;
  std::string_view text(std::size_t row, std::size_t column) const {
    return fields_[row * columns_.size() + column];
  }
  // Throws Error with the line when the field is not a number.
  double number(std::size_t row, std::size_t column) const;

 private:
  std::string name_;
  std::vector<std::string_view> columns_;
  std::vector<std::string_view> fields_;  // row by row
};

// The built-in table "gemm_a100_sxm" of hwprofiles/kernels; nothing where there is none.
std::optional<CsvTable> find_table(std::string_view name);

}  // namespace zplan
