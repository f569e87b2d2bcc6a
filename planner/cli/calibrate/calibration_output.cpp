#include <fmt/format.h>

#include "planner/cli/calibrate/calibration_report.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

// Of a kernel or a copy; left out where nothing is done or moved.
Value rate_of(const exec::Measurement& m, exec::RateOf what) {
  if (m.rate_of != what) return left_out();
  return what == exec::RateOf::kFlop ? Value(FlopsPerSecond{m.rate}) : BytesPerSecond{m.rate};
}

Sheet measurement_sheet(const exec::Measurement& m) {
  Sheet out{{"group", m.group},
            {"what", m.what},
            {"time_s", Seconds{m.seconds}},
            {"flop_per_s", rate_of(m, exec::RateOf::kFlop)},
            {"bytes_per_s", rate_of(m, exec::RateOf::kByte)}};
  out.fact("rate", right(only_words(out["flop_per_s"].words + out["bytes_per_s"].words)));
  return out;
}

Sheet cores_sheet(const exec::CoreCalibration& cores) {
  Sheet out{{"count", cores.cores},
            {"kernels", cores.kernels.size()},
            {"operation_s", Seconds{cores.operation}},
            {"wake_s", Seconds{cores.wake}},
            {"products_together", number("{:.2f}", cores.products_together)},
            {"streams_together", number("{:.2f}", cores.streams_together)}};
  out.say(
      "Cores: {count}, shared by all ranks; in the profile are {kernels} times of kernels, {} of "
      "copies, {} of meetings{}. An operation takes {operation_s} beside its work, a wake-up "
      "{wake_s}; on all cores at once products take {products_together} and streams "
      "{streams_together} times as long",
      {grouped(cores.copies.size()), grouped(cores.collectives.size() + cores.transfers.size()),
       cores.reads.empty() ? "" : fmt::format(", {} of a drive", 2 * cores.reads.size())});
  return out;
}

}  // namespace

std::string measurement_line(const exec::Measurement& m) {
  const Sheet sheet = measurement_sheet(m);
  const std::string& rate = sheet["rate"].words;
  return sheet.filled("{what}: {time_s}{}{}", {rate.empty() ? "" : ", ", rate});
}

Value changes_value(const std::string& base, const std::vector<ProfileChange>& changes) {
  Table table({"pointer: profile", {"before", base}, "now: measured"});
  for (const ProfileChange& change : changes)
    table.row({{"pointer", change.pointer},
               {"before", right({change.before, change.before.empty() ? "-" : change.before})},
               {"now", right(change.now)}});
  return table;
}

Sheet calibration_sheet(const CalibrationReport& report) {
  Table measured({"group: measured", "what:", "time_s: time", "rate"});
  for (const exec::Measurement& m : report.found.measurements) measured.row(measurement_sheet(m));
  if (report.collectives)
    for (const exec::Measurement& m : report.collectives->contention)
      measured.row(measurement_sheet(m));
  if (report.memory) measured.words_row({"memory", "of the device", "", *report.memory});
  if (report.context) measured.words_row({"memory", "context", "", *report.context});
  Sheet out("zplan.calibration/1");
  out.facts({{"device", report.device},
             {"kernel_set", report.kernel_set},
             {"date", report.date},
             {"base", report.base},
             {"quick", report.quick},
             {"measurements", measured},
             {"changes", changes_value(report.base, report.changes)},
             {"collectives",
              report.curves.empty() ? left_out() : curves_value(report.base, report.curves)},
             {"no_collectives",
              report.no_collectives.empty() ? left_out() : Value(report.no_collectives)},
             {"cores", report.cores ? cores_sheet(*report.cores) : left_out()},
             {"memory_bytes", report.memory ? Value(*report.memory) : left_out()},
             {"context_bytes", report.context ? Value(*report.context) : left_out()}});
  out.say("{device}, {kernel_set}, {date}{}", {report.quick ? ", quick" : ""});
  if (!report.no_collectives.empty()) out.say("Collectives were not measured: {no_collectives}");
  out.show_apart({"measurements", "changes", "collectives", "cores"});
  return out;
}

}  // namespace zplan
