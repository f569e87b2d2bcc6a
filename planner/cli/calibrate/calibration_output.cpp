#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/cli/calibrate/calibration_report.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string rate_text(const exec::Measurement& m) {
  switch (m.rate_of) {
    case exec::RateOf::kFlop:
      return format_rate(FlopsPerSecond{m.rate});
    case exec::RateOf::kByte:
      return format_rate(BytesPerSecond{m.rate});
    case exec::RateOf::kNothing:
      break;
  }
  return "";
}

std::string cores_text(const exec::CoreCalibration& cores) {
  const std::size_t meetings = cores.collectives.size() + cores.transfers.size();
  const std::string drive =
      cores.reads.empty() ? "" : fmt::format(", {} of a drive", 2 * cores.reads.size());
  return "\n" +
         wrap(fmt::format(
                  "Cores: {}, shared by all ranks; in the profile are {} times of kernels, {} "
                  "of copies, {} of meetings{}. An operation takes {} beside its work, a "
                  "wake-up {}; on all cores at once products take {:.2f} and streams {:.2f} "
                  "times as long",
                  cores.cores, cores.kernels.size(), cores.copies.size(), meetings, drive,
                  format_seconds({cores.operation}), format_seconds({cores.wake}),
                  cores.products_together, cores.streams_together),
              kScreenWidth, 2, 0) +
         "\n";
}

}  // namespace

std::string measurement_line(const exec::Measurement& m) {
  const std::string rate = rate_text(m);
  return fmt::format("{}: {}{}{}", m.what, format_seconds(Seconds{m.seconds}),
                     rate.empty() ? "" : ", ", rate);
}

std::string calibration_text(const CalibrationReport& report) {
  Table measured({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight},
                 {"measured", "", "time", "rate"});
  for (const exec::Measurement& m : report.found.measurements)
    measured.row({m.group, m.what, format_seconds(Seconds{m.seconds}), rate_text(m)});
  if (report.memory) measured.row({"memory", "of the device", "", format_bytes(*report.memory)});
  if (report.context) measured.row({"memory", "context", "", format_bytes(*report.context)});
  Table changes({Align::kLeft, Align::kRight, Align::kRight}, {"profile", report.base, "measured"});
  for (const ProfileChange& change : report.changes)
    changes.row({change.pointer, change.before.empty() ? "-" : change.before, change.now});
  return fmt::format("{}, {}, {}{}\n\n{}\n{}{}", report.device, report.kernel_set, report.date,
                     report.quick ? ", quick" : "", measured.text(), changes.text(),
                     report.cores ? cores_text(*report.cores) : "");
}

std::string calibration_json(const CalibrationReport& report) {
  using Json = nlohmann::ordered_json;
  Json out = {{"schema", "zplan.calibration/1"},
              {"device", report.device},
              {"kernel_set", report.kernel_set},
              {"date", report.date},
              {"base", report.base},
              {"quick", report.quick},
              {"measurements", Json::array()},
              {"changes", Json::array()}};
  for (const exec::Measurement& m : report.found.measurements) {
    Json row = {{"group", m.group}, {"what", m.what}, {"time_s", m.seconds}};
    if (m.rate_of == exec::RateOf::kFlop) row["flop_per_s"] = m.rate;
    if (m.rate_of == exec::RateOf::kByte) row["bytes_per_s"] = m.rate;
    out["measurements"].push_back(std::move(row));
  }
  if (report.cores)
    out["cores"] = {{"count", report.cores->cores},
                    {"kernels", report.cores->kernels.size()},
                    {"operation_s", report.cores->operation},
                    {"wake_s", report.cores->wake},
                    {"products_together", report.cores->products_together},
                    {"streams_together", report.cores->streams_together}};
  if (report.memory) out["memory_bytes"] = report.memory->value;
  if (report.context) out["context_bytes"] = report.context->value;
  for (const ProfileChange& change : report.changes)
    out["changes"].push_back(
        {{"pointer", change.pointer}, {"before", change.before}, {"now", change.now}});
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zplan
