#include "hwprofiles/index_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "planner/core/error.h"

namespace zplan {
namespace {

// Beyond any index, and far from overflow where two of them are multiplied.
constexpr std::int64_t kMost = 1'000'000'000;
constexpr int kMostDepth = 64;
constexpr std::size_t kMostOpen = 128;  // operands that wait for their operator

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

// Reads by recursive descent, with a level for each row of operators that bind alike.
class IndexRule::Parser {
 public:
  Parser(IndexRule& rule, std::vector<std::string>& names) : rule_(rule), names_(names) {}

  void run() {
    level(0);
    skip_spaces();
    if (at_ < text().size()) fail("one of the operators * / % + - < <= > >= == != and, or the end");
  }

 private:
  struct Operator {
    std::string_view word;
    Kind kind{};
  };
  // Longer words before those that they begin with.
  static constexpr std::array<Operator, 6> kCompare{{{"<=", Kind::kLeast},
                                                     {">=", Kind::kMost},
                                                     {"==", Kind::kEqual},
                                                     {"!=", Kind::kOther},
                                                     {"<", Kind::kLess},
                                                     {">", Kind::kMore}}};
  static constexpr std::array<Operator, 1> kJoin{{{"and", Kind::kAnd}}};
  static constexpr std::array<Operator, 2> kSum{{{"+", Kind::kPlus}, {"-", Kind::kMinus}}};
  static constexpr std::array<Operator, 3> kProduct{
      {{"*", Kind::kTimes}, {"/", Kind::kOver}, {"%", Kind::kRest}}};

  static std::span<const Operator> operators(int level) {
    switch (level) {
      case 0:
        return kJoin;
      case 1:
        return kCompare;
      case 2:
        return kSum;
      default:
        return kProduct;
    }
  }

  std::string_view text() const { return rule_.text_; }
  void skip_spaces() {
    while (at_ < text().size() && text()[at_] == ' ') ++at_;
  }
  [[noreturn]] void fail(std::string_view expected) const {
    const std::string_view found = text().substr(std::min(at_, text().size()));
    throw_bad_input(fmt::format("expected {} in \"{}\", got {}", expected, text(),
                                found.empty() ? "its end" : fmt::format("\"{}\"", found)));
  }

  const Operator* take(std::span<const Operator> known) {
    skip_spaces();
    for (const Operator& one : known) {
      const std::string_view rest = text().substr(at_);
      if (!rest.starts_with(one.word)) continue;
      const char next = rest.size() > one.word.size() ? rest[one.word.size()] : ' ';
      if (is_letter(one.word.front()) && (is_letter(next) || is_digit(next))) continue;
      at_ += one.word.size();
      return &one;
    }
    return nullptr;
  }

  void level(int number) {
    constexpr int kOperands = 4;
    if (number == kOperands) return operand();
    constexpr int kComparisons = 1;
    level(number + 1);
    while (const Operator* found = take(operators(number))) {
      level(number + 1);
      rule_.steps_.push_back({found->kind, 0});
      if (number != kComparisons) continue;
      const std::size_t behind = at_;
      if (take(operators(number)) == nullptr) return;
      at_ = behind;
      fail("two comparisons joined by \"and\"");
    }
  }

  void operand() {
    if (++depth_ > kMostDepth) fail("fewer brackets");
    skip_spaces();
    const char c = at_ < text().size() ? text()[at_] : '\0';
    if (c == '(') {
      ++at_;
      level(0);
      skip_spaces();
      if (at_ >= text().size() || text()[at_] != ')') fail("')'");
      ++at_;
    } else if (c == '-') {
      ++at_;
      rule_.steps_.push_back({Kind::kNumber, 0});
      operand();
      rule_.steps_.push_back({Kind::kMinus, 0});
    } else if (is_digit(c)) {
      number();
    } else if (is_letter(c)) {
      name();
    } else {
      fail("a number, a name or '('");
    }
    --depth_;
  }

  void number() {
    std::int64_t value = 0;
    const char* const end = text().data() + text().size();
    const auto [rest, error] = std::from_chars(text().data() + at_, end, value);
    if (error != std::errc{} || value > kMost) fail(fmt::format("a number up to {}", kMost));
    at_ = static_cast<std::size_t>(rest - text().data());
    rule_.steps_.push_back({Kind::kNumber, value});
  }

  void name() {
    const std::size_t begin = at_;
    while (at_ < text().size() && (is_letter(text()[at_]) || is_digit(text()[at_]))) ++at_;
    const std::string_view word = text().substr(begin, at_ - begin);
    auto found = std::find(names_.begin(), names_.end(), word);
    if (found == names_.end()) found = names_.insert(names_.end(), std::string(word));
    rule_.steps_.push_back({Kind::kName, found - names_.begin()});
  }

  IndexRule& rule_;
  std::vector<std::string>& names_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

IndexRule::IndexRule(std::string_view text, std::vector<std::string>& names) : text_(text) {
  Parser(*this, names).run();
  std::size_t open = 0;
  for (const Step& step : steps_) {
    if (step.kind != Kind::kNumber && step.kind != Kind::kName) {
      --open;
    } else if (++open > kMostOpen) {
      throw_bad_input(fmt::format("expected fewer brackets in \"{}\"", text_));
    }
  }
}

int IndexRule::only_name() const {
  return steps_.size() == 1 && steps_[0].kind == Kind::kName ? static_cast<int>(steps_[0].value)
                                                             : -1;
}

std::int64_t IndexRule::result(Kind kind, std::int64_t a, std::int64_t b) {
  switch (kind) {
    case Kind::kMinus:
      return a - b;
    case Kind::kTimes:
      return a * b;
    case Kind::kOver:
      return (a - result(Kind::kRest, a, b)) / b;
    case Kind::kRest:
      return (a % b + b) % b;
    case Kind::kPlus:
      return a + b;
    case Kind::kLess:
      return static_cast<std::int64_t>(a < b);
    case Kind::kLeast:
      return static_cast<std::int64_t>(a <= b);
    case Kind::kMore:
      return static_cast<std::int64_t>(a > b);
    case Kind::kMost:
      return static_cast<std::int64_t>(a >= b);
    case Kind::kEqual:
      return static_cast<std::int64_t>(a == b);
    case Kind::kOther:
      return static_cast<std::int64_t>(a != b);
    case Kind::kAnd:
      return static_cast<std::int64_t>(a != 0 && b != 0);
    case Kind::kNumber:
    case Kind::kName:
      break;
  }
  ZPLAN_ASSERT(false);
  return 0;
}

std::int64_t IndexRule::at(std::span<const std::int64_t> values) const {
  std::array<std::int64_t, kMostOpen> stack;
  std::size_t size = 0;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNumber || step.kind == Kind::kName) {
      stack[size++] =
          step.kind == Kind::kNumber ? step.value : values[static_cast<std::size_t>(step.value)];
      continue;
    }
    const std::int64_t b = stack[--size];
    std::int64_t& a = stack[size - 1];
    const bool divides = step.kind == Kind::kOver || step.kind == Kind::kRest;
    if (divides && b < 1)
      throw_bad_input(fmt::format("expected a divisor of 1 or more in \"{}\", got {}", text_, b));
    a = result(step.kind, a, b);
    if (a > kMost || a < -kMost)
      throw_bad_input(fmt::format("expected up to {} in \"{}\", got {}", kMost, text_, a));
  }
  return stack[0];
}

}  // namespace zplan
