#include "planner/search/grid.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::size_t kMaxValues = 1000;  // of an axis
constexpr double kSameEnd = 1e-9;         // share of a step by which sums of steps may be off

[[noreturn]] void fail(std::string_view text) {
  throw_bad_input(fmt::format(
      "expected an axis such as nodes=1..64, batch=512,1024, nvme=1..25GB/s or tp=2..8:2, got {}",
      in_quotes(text)));
}

struct Amount {
  double number = 0;
  std::string_view unit;
};

std::optional<Amount> amount(std::string_view text) {
  Amount read;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read.number);
  if (error != std::errc{} || !std::isfinite(read.number)) return std::nullopt;
  read.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (read.unit.starts_with(' ')) read.unit.remove_prefix(1);
  return read;
}

// "1..25GB/s", "2..8:2"
struct TypedRange {
  double from = 0, to = 0;
  double step = 0;  // 0: doubled
  std::string_view unit;
};

std::optional<TypedRange> typed_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return std::nullopt;
  const std::size_t colon = text.find(':', dots);
  const auto from = amount(text.substr(0, dots));
  const auto to = amount(text.substr(dots + 2, colon == text.npos ? colon : colon - dots - 2));
  const auto step = colon == text.npos ? Amount{} : amount(text.substr(colon + 1));
  if (!from || !to || !step) return std::nullopt;
  const auto agrees = [&](const Amount& a) { return a.unit.empty() || a.unit == to->unit; };
  const bool doubles = colon == text.npos;
  if (!agrees(*from) || !agrees(*step) || from->number > to->number) return std::nullopt;
  if (doubles ? !(from->number > 0) : !(step->number > 0)) return std::nullopt;
  return TypedRange{from->number, to->number, step->number, to->unit};
}

std::vector<std::string> values_of(const TypedRange& range) {
  std::vector<std::string> values;
  const auto add = [&](double number) {
    values.push_back(fmt::format("{}{}", number, range.unit));
  };
  if (range.step > 0) {
    const auto steps = (range.to - range.from) / range.step;
    for (double i = 0; i <= steps + kSameEnd && values.size() <= kMaxValues; ++i)
      add(range.from + i * range.step);
    return values;
  }
  for (double number = range.from; number < range.to && values.size() <= kMaxValues; number *= 2)
    add(number);
  add(range.to);
  return values;
}

}  // namespace

GridAxis parse_axis(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) fail(text);
  GridAxis axis{std::string(text.substr(0, equals)), {}};
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto range = typed_range(part);
    if (part.empty() || (!range && part.find("..") != part.npos && amount(part))) fail(text);
    if (range) {
      for (std::string& value : values_of(*range)) axis.values.push_back(std::move(value));
    } else {
      axis.values.emplace_back(part);
    }
    if (axis.values.size() > kMaxValues)
      throw_bad_input(
          fmt::format("{}: expected at most {} values, got more", axis.name, kMaxValues));
    if (comma == rest.npos) return axis;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<std::vector<std::string>> grid_points(const std::vector<GridAxis>& axes) {
  std::size_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    count *= axes[i].values.size();
    for (std::size_t j = 0; j < i; ++j)
      if (axes[i].name == axes[j].name)
        throw_bad_input(fmt::format("axis {}: given more than once", axes[i].name));
    if (count > kMaxQuestions)
      throw_bad_input(fmt::format("expected at most {} questions, got more", kMaxQuestions));
  }
  std::vector<std::vector<std::string>> points(count);
  for (std::size_t i = 0; i < count; ++i) {
    points[i].resize(axes.size());
    std::size_t rest = i;
    for (std::size_t axis = axes.size(); axis-- > 0;) {
      const std::vector<std::string>& values = axes[axis].values;
      points[i][axis] = values[rest % values.size()];
      rest /= values.size();
    }
  }
  return points;
}

std::string point_words(const std::vector<GridAxis>& axes, const std::vector<std::string>& point) {
  std::string words;
  for (std::size_t i = 0; i < axes.size(); ++i)
    words += fmt::format("{}{}={}", words.empty() ? "" : ", ", axes[i].name, point[i]);
  return words;
}

}  // namespace zplan
