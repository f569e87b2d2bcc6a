// Whole numbers worked out of named ones, as a network file writes the places of its links:
//   "n / 8", "(g * 4 + r) % 16", "x + 1 < 8 and y == 0"
// Operators by what binds first: - of one number; * / %; + -; < <= > >= == !=; and. Division rounds
// down and % gives what is left, from 0 on; a comparison is 1 or 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

class IndexRule {
 public:
  // Throws Error: what was expected where in the text. Names become numbers of `names`, which
  // grows.
  IndexRule(std::string_view text, std::vector<std::string>& names);

  // `values`: of the names, in their order. Throws Error where a number is divided by one below 1,
  // or the result is beyond what an index may be.
  std::int64_t at(std::span<const std::int64_t> values) const;
  // The name, where the rule is nothing else; else -1.
  int only_name() const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind : std::uint8_t {
    kNumber,
    kName,
    kMinus,
    kTimes,
    kOver,
    kRest,
    kPlus,
    kLess,
    kLeast,
    kMore,
    kMost,
    kEqual,
    kOther,
    kAnd
  };
  struct Step {
    Kind kind{};
    std::int64_t value = 0;  // the number, or which name
  };
  class Parser;

  static std::int64_t result(Kind kind, std::int64_t a, std::int64_t b);

  std::string text_;
  std::vector<Step> steps_;  // operands before their operator
};

}  // namespace zplan
