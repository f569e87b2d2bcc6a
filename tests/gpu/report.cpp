#include "tests/gpu/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "planner/cli/frame/table.h"

namespace zplan::gpu {
namespace {

std::string number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

std::string goal_text(const Row& row) {
  if (row.relation == Goal::kNone) return "";
  return fmt::format("{} {}", row.relation == Goal::kAtMost ? "<=" : ">=", number(row.goal));
}

std::string verdict(const Row& row) {
  if (row.relation == Goal::kNone) return "";
  return row.passed() ? "pass" : "FAIL";
}

}  // namespace

bool Row::passed() const {
  switch (relation) {
    case Goal::kNone:
      return true;
    case Goal::kAtMost:
      return figure <= goal;
    case Goal::kAtLeast:
      return figure >= goal;
  }
  return false;
}

void Report::add(Row row) {
  const std::string line =
      fmt::format("{}: {}: {}{} {} {} {}\n", row.part, row.name, number(row.figure),
                  row.unit.empty() ? "" : " " + row.unit, goal_text(row), verdict(row), row.note);
  std::fputs(line.c_str(), stderr);
  rows_.push_back(std::move(row));
}

void Report::fail(std::string part, std::string name, std::string why) {
  add({.part = std::move(part),
       .name = std::move(name),
       .figure = std::numeric_limits<double>::quiet_NaN(),
       .relation = Goal::kAtMost,
       .note = std::move(why)});
}

void Report::take(const std::string& json, Origin& origin) {
  const auto read = nlohmann::json::parse(json);
  origin.device = read.at("device");
  origin.driver = read.at("driver");
  for (const auto& part : read.at("parts")) origin.parts.push_back(part);
  for (const auto& entry : read.at("rows")) {
    Row row{.part = entry.at("part"), .name = entry.at("name"), .unit = entry.at("unit")};
    row.figure = entry.at("figure").is_null() ? std::numeric_limits<double>::quiet_NaN()
                                              : entry.at("figure").get<double>();
    for (const Goal goal : {Goal::kAtMost, Goal::kAtLeast}) {
      const char* key = goal == Goal::kAtMost ? "at_most" : "at_least";
      if (!entry.contains(key)) continue;
      row.relation = goal;
      row.goal = entry.at(key);
    }
    row.note = entry.value("note", "");
    rows_.push_back(std::move(row));
  }
}

bool Report::passed() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.passed(); });
}

std::string Report::table() const {
  Table table({"part", "name: what", "figure", "unit", "goal", "verdict:", "note"});
  for (const Row& row : rows_) {
    table.words_row({row.part, row.name, right(number(row.figure)), row.unit, goal_text(row),
                     verdict(row), row.note});
  }
  const auto failed =
      std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.passed(); });
  return table.text() + fmt::format("{} rows, {} failed\n", rows_.size(), failed);
}

std::string Report::json(const Origin& origin) const {
  using Json = nlohmann::ordered_json;
  Json out = {{"schema", "zplan.gpu/1"},   {"device", origin.device}, {"driver", origin.driver},
              {"toolkit", origin.toolkit}, {"commit", origin.commit}, {"date", origin.date},
              {"seed", origin.seed},       {"parts", origin.parts},   {"passed", passed()},
              {"rows", Json::array()}};
  for (const Row& row : rows_) {
    Json entry = {{"part", row.part}, {"name", row.name}, {"figure", nullptr}, {"unit", row.unit}};
    if (std::isfinite(row.figure)) entry["figure"] = row.figure;
    if (row.relation != Goal::kNone)
      entry[row.relation == Goal::kAtMost ? "at_most" : "at_least"] = row.goal;
    entry["passed"] = row.passed();
    if (!row.note.empty()) entry["note"] = row.note;
    out["rows"].push_back(std::move(entry));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zplan::gpu
