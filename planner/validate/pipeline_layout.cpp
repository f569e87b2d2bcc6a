#include "planner/validate/pipeline_layout.h"

#include <charconv>
#include <string>

namespace zplan {
namespace {

constexpr std::size_t kLongest = 100'000;  // letters of a layout without repetitions
constexpr int kDeepest = 64;               // groups within each other

// Writes a layout out, repetition by repetition.
class Expansion {
 public:
  explicit Expansion(std::string_view text) : text_(text) {}

  std::optional<std::string> all() {
    std::string out = sequence();
    if (!good_ || at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  std::string sequence() {
    std::string out;
    while (good_ && at_ < text_.size() && text_[at_] != ')') {
      if (text_[at_] == ' ') {
        ++at_;
        continue;
      }
      out += repeated(item());
      good_ = good_ && out.size() <= kLongest;
    }
    return out;
  }

  std::string item() {
    const char c = text_[at_++];
    if (c != '(') {
      good_ = good_ && std::string_view("EtmL|").find(c) != std::string_view::npos;
      return {c};
    }
    good_ = good_ && ++depth_ <= kDeepest;
    std::string group = sequence();
    good_ = good_ && at_ < text_.size();
    ++at_;
    --depth_;
    return group;
  }

  std::string repeated(const std::string& part) {
    if (at_ >= text_.size() || text_[at_] != '*') return part;
    std::size_t times = 0;
    const char* const end = text_.data() + text_.size();
    const auto [stop, status] = std::from_chars(text_.data() + at_ + 1, end, times);
    good_ = good_ && status == std::errc{} && times <= kLongest / (part.size() + 1);
    at_ = static_cast<std::size_t>(stop - text_.data());
    std::string out;
    for (std::size_t i = 0; good_ && i < times; ++i) out += part;
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

}  // namespace

std::optional<std::vector<std::int32_t>> layers_of_layout(std::string_view layout) {
  const std::optional<std::string> letters = Expansion(layout).all();
  if (!letters || letters->empty()) return std::nullopt;
  std::vector<std::int32_t> layers(1);
  for (const char c : *letters) {
    if (c == '|') layers.push_back(0);
    if (c == 't') ++layers.back();
  }
  return layers;
}

}  // namespace zplan
