#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/cli/calibrate/import_report.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

std::string run_text(const NcclRun& run) {
  return fmt::format("{}, {} ranks on {} node{}, {} times, {}", run.program, run.ranks, run.nodes,
                     run.nodes == 1 ? "" : "s", run.times.size(), run.device);
}

std::string fio_text(const FioRun& run) {
  std::string jobs;
  for (const FioGroup& group : run.groups) jobs += (jobs.empty() ? "" : "; ") + group.jobs;
  return fmt::format("jobs {}", jobs);
}

std::string tool_of(const NcclRun& run) {
  return run.software.empty() ? "nccl-tests" : run.software;
}

std::string read_text(const ImportReport& report) {
  Table table({Align::kLeft, Align::kLeft, Align::kLeft}, {"file", "tool", "what was measured"});
  for (const MeasuredFile& file : report.files) {
    for (const NcclRun& run : file.runs) table.row({file.name, tool_of(run), run_text(run)});
    if (file.fio) table.row({file.name, file.fio->software, fio_text(*file.fio)});
  }
  return table.text();
}

// The least size, the largest, and three between.
std::string curves_text(const ImportReport& report) {
  constexpr std::size_t kParts = 4;
  Table table(
      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight},
      {"collective", "ranks", "nodes", "size", report.base, "measured"});
  for (const CurveChange& curve : report.curves) {
    const std::size_t last = curve.points.size() - 1;
    std::size_t shown = last + 1;
    for (std::size_t part = 0; part <= kParts; ++part) {
      const std::size_t i = last * part / kParts;
      if (i == shown) continue;
      shown = i;
      const CurveChange::Point& point = curve.points[i];
      table.row({std::string(name(curve.group.kind)), fmt::format("{}", curve.group.ranks),
                 fmt::format("{}", curve.group.nodes), format_bytes(point.size),
                 point.before ? format_seconds(*point.before) : "-", format_seconds(point.now)});
    }
  }
  return table.text();
}

std::string changes_text(const ImportReport& report) {
  Table table({Align::kLeft, Align::kRight, Align::kRight}, {"profile", report.base, "measured"});
  for (const ProfileChange& change : report.changes)
    table.row({change.pointer, change.before.empty() ? "-" : change.before, change.now});
  return table.text();
}

Json files_json(const ImportReport& report) {
  Json files = Json::array();
  for (const MeasuredFile& file : report.files) {
    for (const NcclRun& run : file.runs) {
      files.push_back({{"file", file.name},
                       {"tool", tool_of(run)},
                       {"program", run.program},
                       {"ranks", run.ranks},
                       {"nodes", run.nodes},
                       {"device", run.device},
                       {"date", run.date},
                       {"times", run.times.size()},
                       {"left_out", run.left_out}});
    }
    if (!file.fio) continue;
    Json groups = Json::array();
    for (const FioGroup& group : file.fio->groups) groups.push_back(group.jobs);
    files.push_back({{"file", file.name},
                     {"tool", file.fio->software},
                     {"date", file.fio->date},
                     {"groups", std::move(groups)}});
  }
  return files;
}

Json curves_json(const ImportReport& report) {
  Json curves = Json::array();
  for (const CurveChange& curve : report.curves) {
    Json times = Json::array();
    for (const CurveChange::Point& point : curve.points) {
      Json row = {{"bytes", point.size.value}};
      if (point.before) row["before_s"] = point.before->value;
      row["now_s"] = point.now.value;
      times.push_back(std::move(row));
    }
    curves.push_back({{"op", name(curve.group.kind)},
                      {"ranks", curve.group.ranks},
                      {"nodes", curve.group.nodes},
                      {"times", std::move(times)}});
  }
  return curves;
}

}  // namespace

std::string import_text(const ImportReport& report) {
  std::string text = read_text(report);
  if (!report.curves.empty()) text += "\n" + curves_text(report);
  if (!report.changes.empty()) text += "\n" + changes_text(report);
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += wrap(note, kScreenWidth, 2, 0) + "\n";
  return text;
}

std::string import_json(const ImportReport& report) {
  Json out = {{"schema", "zplan.import/1"},  {"base", report.base},
              {"files", files_json(report)}, {"collectives", curves_json(report)},
              {"changes", Json::array()},    {"notes", report.notes}};
  for (const ProfileChange& change : report.changes)
    out["changes"].push_back(
        {{"pointer", change.pointer}, {"before", change.before}, {"now", change.now}});
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zplan
