#include "planner/cli/calibrate/collective_curves.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "planner/cli/frame/table.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

bool is_of(const Json& entry, const MeasuredGroup& group) {
  return entry["op"] == name(group.kind) && entry["ranks"] == group.ranks &&
         entry["nodes"] == group.nodes;
}

Json entry_of(const NewCurve& curve) {
  Json points = Json::array();
  for (const auto& [bytes, time] : curve.times)
    points.push_back(
        Json::array({fmt::format("{} B", bytes), fmt::format("{:.9g} us", time.value * 1e6)}));
  return {{"op", name(curve.group.kind)},
          {"ranks", curve.group.ranks},
          {"nodes", curve.group.nodes},
          {"times", {{"value", std::move(points)}, {"source", "measured"}, {"ref", curve.ref}}}};
}

// For people the least size, the largest, and three between.
bool is_shown(std::size_t point, std::size_t points) {
  constexpr std::size_t kParts = 4;
  for (std::size_t part = 0; part <= kParts; ++part)
    if (point == (points - 1) * part / kParts) return true;
  return false;
}

}  // namespace

CurveChange change_by(const NewCurve& curve, const HwProfile& base) {
  CurveChange change{curve.group, {}};
  const CollectiveProfile* const known = base.device.collectives.get();  // none: a CPU
  const CollectiveCurve* before = nullptr;
  if (known != nullptr && known->curves.contains(curve.group))
    before = &known->curves.at(curve.group);
  for (const auto& [bytes, time] : curve.times) {
    const auto size = static_cast<double>(bytes);
    std::optional<Seconds> old;
    if (before != nullptr && size >= before->least() * (1 - 1e-9) &&
        size <= before->most() * (1 + 1e-9))
      old = before->at(size);
    change.points.push_back({{bytes}, old, time});
  }
  return change;
}

std::string with_curves(const std::string& text, const std::vector<NewCurve>& curves) {
  Json json = Json::parse(text);
  for (const NewCurve& curve : curves) {
    Json& all = json["collectives"];
    Json* found = nullptr;
    for (Json& one : all)
      if (is_of(one, curve.group)) found = &one;
    if (found != nullptr)
      *found = entry_of(curve);
    else
      all.push_back(entry_of(curve));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Value curves_value(const std::string& base, const std::vector<CurveChange>& curves) {
  Table table(
      {"op: collective", "ranks", "nodes", "bytes: size", {"before_s", base}, "now_s: measured"});
  Value out = empty_array();
  for (const CurveChange& curve : curves) {
    Value times = empty_array();
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const CurveChange::Point& point = curve.points[i];
      times.append(
          table.row({{"op", only_words(name(curve.group.kind))},
                     {"ranks", only_words(curve.group.ranks)},
                     {"nodes", only_words(curve.group.nodes)},
                     {"bytes", point.size},
                     {"before_s", point.before ? Value(*point.before) : right(only_words("-"))},
                     {"now_s", point.now}},
                    is_shown(i, curve.points.size())));
    }
    out.append(Sheet{{"op", name(curve.group.kind)},
                     {"ranks", curve.group.ranks},
                     {"nodes", curve.group.nodes},
                     {"times", std::move(times)}});
  }
  return {std::move(out), table.text()};
}

}  // namespace zplan
