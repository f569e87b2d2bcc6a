#include "planner/foreign/frameworks/layer_pattern.h"

#include <charconv>

namespace zplan {
namespace {

// sum = term {"+" term}; term = (list | "(" sum ")") {"*" number}
class Pattern {
 public:
  Pattern(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  std::optional<std::vector<bool>> read() {
    std::vector<bool> out = sum(0);
    skip();
    return is_good_ && at_ == text_.size() ? std::optional(std::move(out)) : std::nullopt;
  }

 private:
  static constexpr int kMostDepth = 8;

  std::vector<bool> fail() {
    is_good_ = false;
    return {};
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool takes(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::vector<bool> sum(int depth) {
    std::vector<bool> out = term(depth);
    while (is_good_ && takes('+')) {
      const std::vector<bool> more = term(depth);
      out.insert(out.end(), more.begin(), more.end());
    }
    return out.size() > most_ ? fail() : out;
  }

  std::vector<bool> term(int depth) {
    if (depth > kMostDepth) return fail();
    std::vector<bool> out;
    if (takes('(')) {
      out = sum(depth + 1);
      if (!takes(')')) return fail();
    } else {
      out = list();
    }
    while (is_good_ && takes('*')) out = times(out);
    return out;
  }

  std::vector<bool> list() {
    std::vector<bool> out;
    if (!takes('[')) return fail();
    while (!takes(']')) {
      const bool is_one = takes('1');
      if (out.size() == most_ || (!is_one && !takes('0'))) return fail();
      out.push_back(is_one);
      takes(',');
    }
    return out;
  }

  std::vector<bool> times(const std::vector<bool>& one) {
    skip();
    std::size_t count = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), count);
    if (error != std::errc{} || (!one.empty() && count > most_ / one.size())) return fail();
    at_ += static_cast<std::size_t>(end - begin);
    std::vector<bool> out;
    for (std::size_t i = 0; i < count && !one.empty(); ++i)
      out.insert(out.end(), one.begin(), one.end());
    return out;
  }

  std::string_view text_;
  std::size_t most_;
  std::size_t at_ = 0;
  bool is_good_ = true;
};

}  // namespace

std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::size_t most) {
  return Pattern(text, most).read();
}

}  // namespace zplan
