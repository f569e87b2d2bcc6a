#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "planner/cli/prediction_output.h"
#include "planner/cli/table.h"
#include "planner/cli/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

constexpr std::size_t kDetailIndent = 2;

// "activations 12.0 GiB,", "parameters 3.64 GiB,", "others 0.1 GiB": the largest first.
std::vector<std::string> parts_of(const TierUse& use) {
  std::vector<std::pair<Bytes, int>> parts;
  for (int i = 0; i < kCategoryCount; ++i) {
    const Bytes size = use.by_category[static_cast<std::size_t>(i)];
    if (size.value > 0) parts.emplace_back(size, i);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr std::size_t kShown = 4;
  std::vector<std::string> words;
  Bytes rest{0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i >= kShown && parts.size() > kShown + 1) {
      rest += parts[i].first;
      continue;
    }
    words.push_back(fmt::format("{} {}", name(static_cast<Category>(parts[i].second)),
                                format_bytes(parts[i].first)));
  }
  if (rest.value > 0) words.push_back(fmt::format("others {}", format_bytes(rest)));
  for (std::size_t i = 0; i + 1 < words.size(); ++i) words[i] += ',';
  return words;
}

std::string tier_label(Tier tier) {
  switch (tier) {
    case Tier::kGpu:
      return "GPU, each";
    case Tier::kCpu:
      return "CPU, per node";
    case Tier::kNvme:
      return "NVMe, per node";
  }
  return "";
}

}  // namespace

std::string memory_text(const MemoryPrediction& memory, std::size_t indent) {
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight},
              {"", "peak", "reserve", "usable", "used"});
  std::vector<std::vector<std::string>> details;
  for (int t = 0; t < kTierCount; ++t) {
    const TierUse& use = memory.use[static_cast<std::size_t>(t)];
    if (use.peak.value == 0) continue;
    const double share = static_cast<double>((use.peak + use.reserve).value) /
                         static_cast<double>(std::max<std::int64_t>(1, use.capacity.value));
    table.row({tier_label(static_cast<Tier>(t)), format_bytes(use.peak), format_bytes(use.reserve),
               format_bytes(use.capacity), percent(share)});
    details.push_back(parts_of(use));
  }
  // Under the line of each tier: what its peak consists of.
  std::istringstream lines(table.text(indent));
  std::string line, out;
  std::getline(lines, line);
  out += line + '\n';
  for (const auto& detail : details) {
    std::getline(lines, line);
    out += line + '\n' + std::string(indent + kDetailIndent, ' ') +
           wrap(detail, kScreenWidth, indent + kDetailIndent, indent + kDetailIndent) + '\n';
  }
  return out;
}

}  // namespace zplan
