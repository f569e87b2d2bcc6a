#include "planner/core/nearest.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/text.h"

namespace zplan {
namespace {

// Longer names are cut: they come from input, and the distance costs the product of the lengths.
constexpr std::size_t kMaxCompared = 64;

}  // namespace

// Optimal string alignment: three rows of the Wagner-Fischer table.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  const std::string a = to_lower(left.substr(0, kMaxCompared));
  const std::string b = to_lower(right.substr(0, kMaxCompared));
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates) {
  std::optional<std::string> nearest;
  std::size_t least = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (2 * distance > std::max(name.size(), candidate.size())) continue;
    if (nearest && distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : std::string();
}

std::string nearest_or_page(std::string_view name, const std::vector<std::string>& candidates,
                            std::string_view page) {
  constexpr std::size_t kShown = 3;
  std::string asked;
  if (const auto nearest = nearest_name(name, candidates)) {
    const std::size_t least = edit_distance(name, *nearest);
    std::vector<std::string> near{in_quotes(*nearest)};
    for (const std::string& candidate : candidates) {
      if (near.size() == kShown) break;
      if (candidate != *nearest && edit_distance(name, candidate) == least)
        near.push_back(in_quotes(candidate));
    }
    asked = fmt::format("; did you mean {}?", joined(near, " or "));
  }
  return fmt::format("{} ({} lists all)", asked, page);
}

}  // namespace zplan
