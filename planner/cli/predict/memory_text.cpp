#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

constexpr std::size_t kDetailIndent = 2;

// "activations 12.0 GiB,", "parameters 3.64 GiB,", "others 0.1 GiB": the largest first, up to
// `shown` by name.
std::vector<std::string> parts_of(const TierUse& use, std::size_t shown) {
  std::vector<std::pair<Bytes, int>> parts;
  for (int i = 0; i < kCategoryCount; ++i) {
    const Bytes size = use.by_category[static_cast<std::size_t>(i)];
    if (size.value > 0) parts.emplace_back(size, i);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  Bytes rest{0};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i >= shown && parts.size() > shown + 1) {
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

std::string memory_text(const MemoryPrediction& memory, std::size_t indent,
                        std::size_t categories) {
  Table table(
      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight},
      {"", "peak", "reserve", "headroom", "usable", "used"});
  std::vector<std::vector<std::string>> details;
  for (int t = 0; t < kTierCount; ++t) {
    const TierUse& use = memory.use[static_cast<std::size_t>(t)];
    if (use.peak.value == 0) continue;
    const double share = static_cast<double>((use.peak + use.reserve).value) /
                         static_cast<double>(std::max<std::int64_t>(1, use.capacity.value));
    table.row({tier_label(static_cast<Tier>(t)), format_bytes(use.peak), format_bytes(use.reserve),
               use.headroom.value > 0 ? format_bytes(use.headroom) : "", format_bytes(use.capacity),
               percent(share)});
    details.push_back(parts_of(use, categories));
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

std::string placement_text(const MemoryReport& report, std::size_t indent) {
  Table table(
      {Align::kRight, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kLeft},
      {"stage", "tier", "slab", "live peak", "ratio", "fullest at"});
  for (const ClassMemory& c : report.classes) {
    for (int t = 0; t < kTierCount; ++t) {
      const TierMemory& tier = c.tiers[static_cast<std::size_t>(t)];
      if (tier.slab.value == 0) continue;
      table.row({std::to_string(c.stage), std::string(name(static_cast<Tier>(t))),
                 format_bytes(tier.slab), format_bytes(tier.live_peak),
                 fmt::format("{:.3f}", tier.slab_over_live_peak()), tier.peak_op});
    }
  }
  return table.text(indent);
}

std::string over_text(const MemoryPrediction& memory) {
  std::string out;
  for (int t = 0; t < kTierCount; ++t) {
    const TierUse& use = memory.use[static_cast<std::size_t>(t)];
    if (use.fits()) continue;
    std::vector<std::string> words = {fmt::format(
        "DOES NOT FIT: {} is exceeded by {} ({} bytes):", tier_words(static_cast<Tier>(t)),
        format_bytes(use.over()), grouped(use.over().value))};
    const std::vector<std::string> parts = parts_of(use, kCategoryCount);
    words.insert(words.end(), parts.begin(), parts.end());
    out += wrap(words, kScreenWidth, kDetailIndent, 0) + '\n';
  }
  return out;
}

}  // namespace zplan
