#include "planner/cli/predict/prediction_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/cli/frame/sheet.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"
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

Value interval_value(const TimeInterval& interval) {
  return {Sheet{{"low_s", interval.low}, {"high_s", interval.high}},
          fmt::format("{} .. {}", format_seconds(interval.low), format_seconds(interval.high))};
}

Value reading_value(MemoryReading reading) {
  switch (reading) {
    case MemoryReading::kDevice:
      return {"nvidia_smi", "as nvidia-smi shows it"};
    case MemoryReading::kReserved:
      return {"reserved", "reserved by the allocator"};
    case MemoryReading::kAllocated:
      return {"allocated", "in use of the allocator"};
  }
  ZPLAN_ASSERT(false);
}

// This warns where the rates would have to move further than what is known of them allows.
std::string outside_words(const Anchor& anchor) {
  const TimeInterval& after = anchor.interval_after;
  const bool is_inside = after.low <= anchor.measured && anchor.measured <= after.high;
  return is_inside ? ""
                   : "; the measured step lies outside even then: is it of this plan, and of this "
                     "software?";
}

Sheet anchor_sheet(const Anchor& anchor) {
  Sheet out{{"run", {anchor.run, visible(anchor.run)}},
            {"measured_s", anchor.measured},
            {"before_s", anchor.before},
            {"after_s", anchor.after},
            {"interval_before", interval_value(anchor.interval_before)},
            {"interval_after", interval_value(anchor.interval_after)},
            {"moved", moved_value(anchor.moved)}};
  out.say(
      "calibrated on {run}: a step of {measured_s} measured, {before_s} ({interval_before}) "
      "predicted before and {after_s} ({interval_after}) after{moved}{}",
      {outside_words(anchor)});
  return out;
}

}  // namespace

Value anchors_value(const std::vector<Anchor>& anchors) {
  if (anchors.empty()) return left_out();
  Value out = each(anchors, anchor_sheet);
  out.words += "\n";
  return out;
}

Value memory_calibration_value(const std::optional<MemoryCalibration>& calibration) {
  if (!calibration) return left_out();
  const MeasuredMemory& found = calibration->found;
  Sheet out{{"run", {calibration->run, visible(calibration->run)}},
            {"stack", calibration->stack},
            {"device", found.device},
            {"reading", reading_value(found.reading)},
            {"measured_bytes", calibration->measured},
            {"predicted_bytes", calibration->predicted},
            {"offset_bytes", found.offset}};
  const Bytes size{std::abs(found.offset.value)};
  out.say(
      "calibrated on {run}: {} of a GPU measured, {} predicted ({reading}); every plan of {stack} "
      "on {device} is taken to hold {} {} than predicted, since one number cannot tell whether "
      "the difference grows with the plan",
      {format_bytes(calibration->measured), format_bytes(calibration->predicted),
       format_bytes(size), found.offset.value < 0 ? "less" : "more"});
  out.print("\n");
  return out;
}

}  // namespace zplan
