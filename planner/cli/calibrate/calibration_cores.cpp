#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/cli/calibrate/calibration_report.h"
#include "planner/program/job/ops.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

std::string in_us(double seconds) { return fmt::format("{:.3f}", seconds * 1e6); }

Json moves(const std::vector<exec::CoreCalibration::Move>& all) {
  Json rows = Json::array();
  for (const auto& move : all)
    rows.push_back(fmt::format("{} {}", move.bytes, in_us(move.seconds)));
  return rows;
}

Json kernel_rows(const exec::CoreCalibration& found) {
  Json rows = Json::array();
  for (const auto& k : found.kernels)
    rows.push_back(fmt::format("{} {} {} {} {} {}", name(k.kernel), k.threads, k.sizes[0],
                               k.sizes[1], k.sizes[2], in_us(k.seconds)));
  return rows;
}

Json collective_rows(const exec::CoreCalibration& found) {
  Json rows = Json::array();
  for (const auto& c : found.collectives)
    rows.push_back(fmt::format("{} {} {} {}", name(c.kind), c.ranks, c.bytes, in_us(c.seconds)));
  return rows;
}

}  // namespace

std::string cores_member(const exec::CoreCalibration& found, const std::string& ref) {
  const auto measured = [&](Json value) {
    return Json{{"value", std::move(value)}, {"source", "measured"}, {"ref", ref}};
  };
  const auto rounded = [](double factor) { return std::round(factor * 1000) / 1000; };
  Json out;
  out["count"] = measured(found.cores);
  out["operation"] = measured(in_us(found.operation) + " us");
  out["wake"] = measured(in_us(found.wake) + " us");
  out["products_together"] = measured(rounded(found.products_together));
  out["streams_together"] = measured(rounded(found.streams_together));
  out["kernels"] = measured(kernel_rows(found));
  out["collectives"] = measured(collective_rows(found));
  out["copies"] = measured(moves(found.copies));
  out["transfers"] = measured(moves(found.transfers));
  if (!found.reads.empty()) out["reads"] = measured(moves(found.reads));
  if (!found.writes.empty()) out["writes"] = measured(moves(found.writes));
  return out.dump();
}

}  // namespace zplan
