#include "planner/foreign/syntax/shell_arithmetic.h"

#include <charconv>
#include <cstddef>

namespace zplan {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kMostParentheses = 100;

Number combine(char op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  const bool divides = op == '/' || op == '%';
  if (divides && (b == 0 || b == -1)) return b == 0 ? Number{} : combine('*', op == '/' ? a : 0, b);
  switch (op) {
    case '+':
      return __builtin_add_overflow(a, b, &out) ? Number{} : out;
    case '-':
      return __builtin_sub_overflow(a, b, &out) ? Number{} : out;
    case '*':
      return __builtin_mul_overflow(a, b, &out) ? Number{} : out;
    case '/':
      return a / b;
    default:
      return a % b;
  }
}

class Expression {
 public:
  explicit Expression(std::string_view text) : rest_(text) {}

  Number whole() {
    const Number out = sum();
    skip();
    return rest_.empty() ? out : Number{};
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  // The next character, if it is one of these; else 0.
  char take(std::string_view any) {
    skip();
    if (rest_.empty() || any.find(rest_.front()) == std::string_view::npos) return 0;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  Number sum() { return chain("+-", &Expression::product); }
  Number product() { return chain("*/%", &Expression::atom); }

  Number chain(std::string_view operators, Number (Expression::*part)()) {
    Number out = (this->*part)();
    while (out) {
      const char op = take(operators);
      if (op == 0) break;
      const Number next = (this->*part)();
      out = next ? combine(op, *out, *next) : next;
    }
    return out;
  }

  Number atom() {
    if (take("-") != 0) {
      const Number of = atom();
      return of ? combine('-', 0, *of) : of;
    }
    if (take("(") != 0) {
      if (++depth_ > kMostParentheses) return std::nullopt;
      const Number of = sum();
      return take(")") != 0 ? of : Number{};
    }
    std::int64_t out = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return out;
  }

  std::string_view rest_;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view text) {
  return Expression(text).whole();
}

}  // namespace zplan
