#include "planner/program/kernels/kernel_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces split(std::string_view text, char separator) {
  Pieces result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    result.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

bool is_number(std::string_view term) { return term[0] >= '0' && term[0] <= '9'; }

std::int64_t number(std::string_view term) {
  std::int64_t value = 0;
  std::from_chars(term.data(), term.data() + term.size(), value);
  return value;
}

// Sizes by letter, each as the first dimension that shows it says.
class Sizes {
 public:
  void learn(std::string_view dim, std::int64_t size) {
    const std::size_t plus = dim.find('+');
    if (dim.find('*') != std::string_view::npos || is_number(dim)) return;
    const std::string_view letter = dim.substr(0, plus);
    if (find(letter) == nullptr)
      known_.push_back(
          {letter, plus == std::string_view::npos ? size : size - number(dim.substr(plus + 1))});
  }

  bool agree(std::string_view dim, std::int64_t size) const {
    const std::size_t op = dim.find_first_of("+*");
    if (op == std::string_view::npos) return value(dim) == size;
    const std::int64_t a = value(dim.substr(0, op)), b = value(dim.substr(op + 1));
    return (dim[op] == '+' ? a + b : a * b) == size;
  }

 private:
  struct Known {
    std::string_view letter;
    std::int64_t size;
  };
  const Known* find(std::string_view letter) const {
    const auto at = std::find_if(known_.begin(), known_.end(),
                                 [&](const Known& k) { return k.letter == letter; });
    return at == known_.end() ? nullptr : &*at;
  }
  std::int64_t value(std::string_view term) const {
    if (is_number(term)) return number(term);
    const Known* known = find(term);
    ZPLAN_ASSERT(known != nullptr);
    return known->size;
  }

  std::vector<Known> known_;
};

bool is_any(const OperandRow& row) { return row.shape == "[*]"; }

// "x:rc[T,h]?=y"
OperandRow read_operand(std::string_view word) {
  const std::size_t colon = word.find(':');
  OperandRow row;
  row.name = word.substr(0, colon);
  row.access = word[colon + 1];
  if (row.access == 's') return row;
  row.type = word[colon + 2];
  const std::size_t open = colon + 3, close = word.find(']');
  ZPLAN_ASSERT(word[open] == '[' && close != std::string_view::npos);
  row.shape = word.substr(open, close + 1 - open);
  row.dims = split(row.shape.substr(1, row.shape.size() - 2), ',');
  std::string_view rest = word.substr(close + 1);
  row.may_be_absent = rest.starts_with('?');
  if (row.may_be_absent) rest.remove_prefix(1);
  if (rest.starts_with('=')) row.in_place_of = split(rest.substr(1), '=');
  return row;
}

using Rows = std::span<const OperandRow>;

bool shapes_fit(Rows rows, std::span<const View> operands) {
  Sizes sizes;
  const Shape* same = nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Shape& shape = operands[i].shape;
    if (is_any(rows[i])) {
      if (same == nullptr) same = &shape;
      if (!(shape == *same)) return false;
      continue;
    }
    if (shape.rank != static_cast<int>(rows[i].dims.size())) return false;
    for (int d = 0; d < shape.rank; ++d)
      sizes.learn(rows[i].dims[static_cast<std::size_t>(d)], shape[d]);
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t d = 0; d < rows[i].dims.size() && !is_any(rows[i]); ++d)
      if (!sizes.agree(rows[i].dims[d], operands[i].shape[static_cast<int>(d)])) return false;
  return true;
}

bool types_fit(Rows rows, std::span<const View> operands) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const DType type = operands[i].dtype;
    if (rows[i].type == 'd' && type != DType::kF64) return false;
    if ((rows[i].type == 'i') != (type == DType::kI32)) return false;
    if ((rows[i].type == 'k') != (type == DType::kU8)) return false;
    for (std::size_t j = 0; j < i; ++j)
      if (rows[j].type == rows[i].type && operands[j].dtype != type) return false;
  }
  return true;
}

}  // namespace

std::vector<OperandRow> read_operands(std::string_view words) {
  std::vector<OperandRow> rows;
  for (const std::string_view word : split(words, ' ')) rows.push_back(read_operand(word));
  return rows;
}

std::optional<std::string> operand_mismatch(Rows rows, std::span<const View> operands) {
  if (!rows.empty() && rows.back().access == 's') rows = rows.first(rows.size() - 1);
  if (!operands.empty() && operands.back().access == Access::kScratch)
    operands = operands.first(operands.size() - 1);
  rows = rows.first(std::min(rows.size(), operands.size()));
  if (shapes_fit(rows, operands) && types_fit(rows, operands)) return std::nullopt;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const View& v = operands[i];
    const auto dims = std::span(v.shape.dims).first(static_cast<std::size_t>(v.shape.rank));
    texts.push_back(fmt::format("{}:{}[{}]", rows[i].name, name(v.dtype), joined(dims, ",")));
  }
  return joined(texts, " ");
}

}  // namespace zplan
