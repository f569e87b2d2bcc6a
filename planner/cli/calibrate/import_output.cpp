#include <fmt/format.h>

#include "planner/cli/calibrate/import_report.h"
#include "planner/cli/frame/table.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// A file may be of several runs.
Sheet run_sheet(const std::string& file, const NcclRun& run) {
  Sheet out{{"file", file},
            {"tool", run.software.empty() ? "nccl-tests" : run.software},
            {"program", run.program},
            {"ranks", run.ranks},
            {"nodes", counted(run.nodes, "node")},
            {"device", run.device},
            {"date", run.date},
            {"times", run.times.size()},
            {"left_out", run.left_out}};
  out.fact("measured", only_words(out.filled("{program}, {ranks} ranks on {nodes}, {times} times, "
                                             "{device}")));
  return out;
}

Sheet fio_sheet(const std::string& file, const FioRun& run) {
  std::vector<std::string> groups;
  for (const FioGroup& group : run.groups) groups.push_back(group.jobs);
  return {{"file", file},
          {"tool", run.software},
          {"date", run.date},
          {"groups", groups},
          {"measured", only_words(fmt::format("jobs {}", joined(groups, "; ")))}};
}

Table files_table(const std::vector<MeasuredFile>& files) {
  Table table({"file", "tool", "measured: what was measured"});
  for (const MeasuredFile& file : files) {
    for (const NcclRun& run : file.runs) table.row(run_sheet(file.name, run));
    if (file.fio) table.row(fio_sheet(file.name, *file.fio));
  }
  return table;
}

// A paragraph each.
Value notes(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += paragraph(note);
  return {notes, text};
}

}  // namespace

Sheet import_sheet(const ImportReport& report) {
  Sheet out("zplan.import/1");
  out.fact("base", report.base);
  out.facts({{"files", files_table(report.files)},
             {"collectives", curves_value(report.base, report.curves)},
             {"changes", changes_value(report.base, report.changes)},
             {"notes", notes(report.notes)}});
  out.show({"files"});
  out.show_apart({"collectives", "changes", "notes"});
  return out;
}

}  // namespace zplan
