#include "planner/cli/predict/prediction_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/cli/frame/sheet.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// What moved by a percent at least, most first.
std::vector<MovedRate> greatest(std::vector<MovedRate> moved) {
  constexpr double kWorthTelling = 0.01;
  const auto by = [](const MovedRate& rate) {
    return std::abs(std::log(rate.after / rate.before));
  };
  std::erase_if(moved, [&](const MovedRate& rate) { return by(rate) < kWorthTelling; });
  std::ranges::stable_sort(moved, [&](const auto& a, const auto& b) { return by(a) > by(b); });
  return moved;
}

Value moved_value(const std::vector<MovedRate>& moved) {
  Value rows = empty_array();
  for (const MovedRate& rate : moved)
    rows.append(Sheet{{"rate", rate.name}, {"before", rate.before}, {"after", rate.after}});
  std::string words;
  for (const MovedRate& rate : greatest(moved))
    words += fmt::format("; {} {:+.0f} %", rate.name, 100 * (rate.after / rate.before - 1));
  return {std::move(rows), words.empty() ? "; no rate moved by 1 %" : words};
}

Sheet anchor_sheet(const Anchor& anchor) {
  Sheet out{{"run", {anchor.run, visible(anchor.run)}},
            {"measured_s", anchor.measured},
            {"before_s", anchor.before},
            {"after_s", anchor.after},
            {"moved", moved_value(anchor.moved)}};
  out.say(
      "anchor {run}: measured {measured_s}, predicted {before_s} before and {after_s} "
      "after{moved}");
  return out;
}

}  // namespace

Value anchors_value(const std::vector<Anchor>& anchors) {
  if (anchors.empty()) return left_out();
  Value out = each(anchors, anchor_sheet);
  out.words += "\n";
  return out;
}

}  // namespace zplan
