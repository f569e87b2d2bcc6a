#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/run/run_report.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string steps_part(const PlannedJob& planned, const RunReport& report) {
  if (report.steps.empty()) return "";
  const Batch& batch = planned.plan.batch;
  const auto tokens = static_cast<double>(batch.global_batch * batch.sequence);
  Table table(
      {Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft},
      {"step", "loss", "gradient norm", "time", "tokens/s", ""});
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const exec::StepResult& step = report.steps[i];
    const std::string skipped =
        step.skipped ? fmt::format("update skipped, loss scale {:g}", step.loss_scale) : "";
    table.row({std::to_string(i + 1), fmt::format("{:.6f}", step.loss),
               planned.plan.clip ? fmt::format("{:.6f}", step.gradient_norm) : "-",
               format_seconds(step.wall),
               grouped(static_cast<std::int64_t>(tokens / std::max(step.wall.value, 1e-9))),
               skipped});
  }
  return table.text();
}

std::string times_part(const PlannedJob& planned, const RunReport& report) {
  std::string out =
      fmt::format("Step time: measured {} (median{})", format_seconds(*report.measured),
                  report.steps.size() > 1 ? " without the first" : "");
  if (report.predicted) {
    out += fmt::format(", predicted {} on {}", format_seconds(*report.predicted),
                       planned.plan.hardware);
  } else {
    out += fmt::format("; no prediction: {}", report.no_prediction);
  }
  return wrap(out, kScreenWidth, 2, 0) + "\n";
}

std::string split_part(const Comparison& split) {
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight},
              {"of one step", "operations", "predicted", "measured", "measured/predicted"});
  const auto add = [&table](const std::vector<ComparedRow>& rows, const char* what) {
    for (const ComparedRow& row : rows) {
      const auto times = ratio(row.predicted.time, row.measured.time);
      table.row({fmt::format("{} {}", what, row.name), grouped(row.measured.operations),
                 format_seconds(row.predicted.time), format_seconds(row.measured.time),
                 times ? fmt::format("{:.2f}", *times) : "-"});
    }
  };
  add(split.kinds, "kind");
  add(split.lanes, "lane");
  return "\n" + table.text() +
         wrap(
             "One rank of each stage, means over all steps but the first. Lanes run side by side, "
             "so operations do not add up to the step.",
             kScreenWidth, 0, 0) +
         "\n";
}

std::string memory_part(const RunMemory& memory) {
  const std::string text =
      fmt::format("Memory: slabs {} as placed; beside them the process holds {}, predicted {}",
                  format_bytes(memory.placed), format_bytes(memory.beside_slabs()),
                  format_bytes(memory.predicted.total()));
  return wrap(text, kScreenWidth, 2, 0) + "\n";
}

std::string check_part(const RunReport& report) {
  Table table(
      {Align::kLeft, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft},
      {"check", "difference", "tolerance", "", "", "greatest at"});
  for (const CheckRow& row : report.check) {
    table.row({row.quantity, fmt::format("{:.2e}", row.difference),
               fmt::format("{:.0e}", row.tolerance), row.unit, row.agrees() ? "ok" : "DIFFERS",
               row.only_zeros ? "nothing but zeros to compare" : row.where});
  }
  return "\n" + table.text();
}

}  // namespace

bool RunReport::agrees() const {
  return std::all_of(check.begin(), check.end(), [](const CheckRow& row) { return row.agrees(); });
}

std::string run_text(const PlannedJob& planned, const RunReport& report) {
  const Plan& plan = planned.plan;
  std::string out = fmt::format("{} on {} of this machine, {}\n", plan.model,
                                count_of(planned.job.world(), "rank"), plan.kernel_set);
  for (const std::string& line : plan_lines(plan)) {
    out += "  " + wrap(line, kScreenWidth, 4, 2) + "\n";
  }
  if (report.storage)
    out += "  " + wrap("NVMe: " + exec::describe(*report.storage), kScreenWidth, 4, 2) + "\n";
  out += "\n" + steps_part(planned, report);
  if (report.interrupted) {
    out += fmt::format("interrupted after {} of {}\n",
                       count_of(static_cast<std::int64_t>(report.steps.size()), "step"),
                       grouped(report.steps_wanted));
  }
  if (report.checked) out += check_part(report);
  if (report.measured) out += "\n" + times_part(planned, report);
  if (report.split) out += split_part(*report.split) + "\n";
  if (report.memory) out += memory_part(*report.memory);
  return out + fmt::format("Fingerprint {}\n", planned.fingerprint);
}

}  // namespace zplan
