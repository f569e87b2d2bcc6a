#include "planner/cli/predict/split_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/core/shares.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

struct Shown {
  sim::StepUse use{};
  Seconds time{};
  std::int64_t tenths = 0;  // of a percent
};

std::vector<Shown> shown_parts(const sim::StepSplit& split) {
  constexpr std::int64_t kTenths = 1000;
  std::vector<double> times;
  for (const Seconds part : split.parts) times.push_back(part.value);
  const std::vector<std::int64_t> tenths = rounded_shares(times, kTenths);
  std::vector<Shown> parts;
  for (std::size_t u = 0; u < times.size(); ++u)
    parts.push_back({static_cast<sim::StepUse>(u), split.parts[u], tenths[u]});
  return parts;
}

double percent_of(const Shown& part) { return static_cast<double>(part.tenths) / 10; }

}  // namespace

Sheet step_split_sheet(const sim::StepSplit& split, std::size_t indent) {
  Table table({"name:", "time_s:", "percent:"});
  for (const Shown& part : shown_parts(split))
    table.row({{"part", key(part.use)},
               {"name", name(part.use)},
               {"time_s", part.time},
               {"share", split.share(part.use)},
               {"percent", number("{:.1f} %", percent_of(part))}},
              part.time.value > 0);
  Sheet out{{"stage", split.stage}, {"step_s", split.step}};
  out.table("parts", table, indent);
  return out;
}

std::string split_line(const sim::StepSplit& split) {
  std::vector<Shown> parts = shown_parts(split);
  std::erase_if(parts, [](const Shown& part) { return part.time.value <= 0; });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Shown& a, const Shown& b) { return a.time > b.time; });
  std::vector<std::string> words;
  for (const Shown& part : parts)
    if (part.tenths > 0)
      words.push_back(fmt::format("{} {:.1f} %", name(part.use), percent_of(part)));
  return fmt::format("{} = 100 % of the step{}", joined(words, ", "),
                     split.stages > 1 ? fmt::format(" of stage {}", split.stage) : "");
}

std::string limit_of(const sim::StepSplit& split) {
  std::string most = "compute";
  Seconds longest = split.compute();
  for (int u = 0; u < sim::kStepUseCount; ++u) {
    const auto use = static_cast<sim::StepUse>(u);
    if (computes(use) || split.part(use) <= longest) continue;
    longest = split.part(use);
    most = name(use);
  }
  constexpr std::string_view kExposed = "exposed ";
  return most.starts_with(kExposed) ? most.substr(kExposed.size()) : most;
}

}  // namespace zplan
