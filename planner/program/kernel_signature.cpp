#include "planner/program/kernel_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "planner/core/error.h"

namespace zplan {
namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view text, char separator) {
  Words result;
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

struct Pattern {
  std::string_view name;
  Words dims;
  bool any = false;  // [*]
};

Pattern pattern_of(std::string_view word) {
  const std::size_t open = word.find('[');
  Pattern result{word.substr(0, open), split(word.substr(open + 1, word.size() - open - 2), ','),
                 false};
  result.any = result.dims.size() == 1 && result.dims[0] == "*";
  return result;
}

bool shapes_fit(const std::vector<Pattern>& patterns, std::span<const View> operands) {
  Sizes sizes;
  const Shape* same = nullptr;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const Shape& shape = operands[i].shape;
    if (patterns[i].any) {
      if (same == nullptr) same = &shape;
      if (!(shape == *same)) return false;
      continue;
    }
    if (shape.rank != static_cast<int>(patterns[i].dims.size())) return false;
    for (int d = 0; d < shape.rank; ++d)
      sizes.learn(patterns[i].dims[static_cast<std::size_t>(d)], shape[d]);
  }
  for (std::size_t i = 0; i < patterns.size(); ++i)
    for (std::size_t d = 0; d < patterns[i].dims.size() && !patterns[i].any; ++d)
      if (!sizes.agree(patterns[i].dims[d], operands[i].shape[static_cast<int>(d)])) return false;
  return true;
}

bool types_fit(std::string_view types, std::span<const View> operands) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    const DType type = operands[i].dtype;
    if (types[i] == 'd' && type != DType::kF64) return false;
    if ((types[i] == 'i') != (type == DType::kI32)) return false;
    if ((types[i] == 'k') != (type == DType::kU8)) return false;
    if (type != operands[types.find(types[i])].dtype) return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> operand_mismatch(std::string_view shapes, std::string_view types,
                                            std::span<const View> operands) {
  std::vector<Pattern> patterns;
  for (const std::string_view word : split(shapes, ' ')) patterns.push_back(pattern_of(word));
  patterns.resize(std::min(patterns.size(), operands.size()));
  const bool fits =
      shapes_fit(patterns, operands) && types_fit(types.substr(0, patterns.size()), operands);
  if (fits) return std::nullopt;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const View& v = operands[i];
    const auto dims = std::span(v.shape.dims).first(static_cast<std::size_t>(v.shape.rank));
    texts.push_back(
        fmt::format("{}:{}[{}]", patterns[i].name, name(v.dtype), fmt::join(dims, ",")));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

}  // namespace zplan
