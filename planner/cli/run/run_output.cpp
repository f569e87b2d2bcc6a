#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/run/comparison_output.h"
#include "planner/cli/run/run_report.h"

namespace zplan {
namespace {

Table steps_table(const PlannedJob& planned, const RunReport& report) {
  const Batch& batch = planned.plan.batch;
  const auto tokens = static_cast<double>(batch.global_batch * batch.sequence);
  Table table({"step", "loss", "gradient_norm: gradient norm", "wall_s: time", "tokens: tokens/s",
               "skipped:"});
  std::int64_t n = report.begin.step;
  for (const exec::StepResult& step : report.steps) {
    const double rate = tokens / std::max(step.wall.value, 1e-9);
    std::string skipped =
        step.skipped ? fmt::format("update skipped, loss scale {:g}", step.loss_scale) : "";
    if (step.dropped > 0)
      skipped += fmt::format("{}{} choices of experts dropped", skipped.empty() ? "" : "; ",
                             grouped(static_cast<std::int64_t>(step.dropped)));
    // Without clipping nothing computes the norm.
    table.row({{"step", only_words(right(std::to_string(++n)))},
               {"loss", number("{:.6f}", step.loss)},
               {"gradient_norm",
                planned.plan.clip ? number("{:.6f}", step.gradient_norm) : Value(nullptr, "-")},
               {"skipped", {step.skipped, skipped}},
               {"loss_scale", step.loss_scale},
               {"dropped", step.dropped},
               {"balance_loss", step.balance_loss},
               {"wall_s", step.wall},
               {"exposed_s", step.exposed},
               {"tokens", only_words(static_cast<std::int64_t>(rate))}});
  }
  return table;
}

Table validations_table(const std::vector<exec::ValidationResult>& validations) {
  Table table({"step: after step", "loss: validation loss", "wall_s: time"});
  for (const exec::ValidationResult& each : validations)
    table.row({{"step", each.step}, {"loss", number("{:.6f}", each.loss)}, {"wall_s", each.wall}});
  return table;
}

// Samples overlap: a token is drawn now and then, on average as often as this.
Sheet data_sheet(const Batch& batch, const RunReport& report) {
  const std::int64_t drawn = batch.global_batch * batch.sequence * std::ssize(report.steps) +
                             report.begin.samples * batch.sequence;
  const double times = static_cast<double>(drawn) / static_cast<double>(report.data.tokens);
  Sheet out{{"name", report.data.name},
            {"tokens", report.data.tokens},
            {"times_drawn", number("{:.2g}", times)}};
  out.say("Data: {name}, {tokens} tokens, each drawn {times_drawn} times on average", {}, 2);
  return out;
}

Sheet storage_sheet(const exec::StorageReport& storage) {
  Sheet out{{"directory", storage.directory}, {"files", storage.files},
            {"bytes", storage.bytes},         {"io", exec::name(storage.method)},
            {"direct", storage.direct},       {"pinned", storage.pinned},
            {"reason", storage.method_reason}};
  out.say("NVMe: {}", {exec::describe(storage)}, 2);
  return out;
}

Table kernels_table(const std::vector<exec::KernelChoice>& choices) {
  Table table({"operation: first operation", "kernel:"});
  for (const exec::KernelChoice& choice : choices)
    table.row({{"operation", choice.operation},
               {"kernel", choice.kernel},
               {"slow", choice.slow},
               {"key", choice.key},
               {"value", choice.value}});
  return table;
}

Sheet saves_sheet(const exec::SaveReport& saves) {
  Value list = empty_array();
  Seconds stalls{0};
  for (const exec::SavedCheckpoint& saved : saves.saved) {
    stalls += saved.stall;
    list.append(Sheet{{"step", saved.step},
                      {"bytes", saved.bytes},
                      {"stall_s", saved.stall},
                      {"writing_s", saved.writing}});
  }
  const auto count = static_cast<std::int64_t>(saves.saved.size());
  Sheet out{{"folder", saves.folder},
            {"aside", saves.aside},
            {"failed", saves.failed},
            {"saved", list},
            {"stall_s", stalls}};
  if (count == 0) return out;
  const exec::SavedCheckpoint& last = saves.saved.back();
  const double rate =
      last.writing.value > 0 ? static_cast<double>(last.bytes.value) / last.writing.value : 0;
  out.say(
      "Kept: wrote {} to {folder}, the last of {} in {} ({}); training stood still for {stall_s}",
      {count_of(count, "checkpoint"), Value(last.bytes).words, Value(last.writing).words,
       Value(BytesPerSecond{rate}).words},
      2);
  return out;
}

Sheet export_sheet(const exec::ExportReport& exported) {
  Sheet out{{"folder", exported.folder},
            {"files", exported.files},
            {"bytes", exported.bytes},
            {"time_s", exported.time}};
  out.say("Exported: weights in {}, {bytes}, to {folder} in {time_s}",
          {count_of(exported.files, "file")}, 2);
  return out;
}

std::string times_text(const Sheet& run, const RunReport& report, const std::string& hardware) {
  Sheet out;
  const char* median = report.steps.size() > 1 ? "median without the first" : "median";
  out.say("Step time: measured {} ({}){}",
          {run["measured_step_s"].words, median,
           report.predicted
               ? fmt::format(", predicted {} on {}", run["predicted_step_s"].words, hardware)
               : fmt::format("; no prediction: {}", report.no_prediction)});
  return "\n" + out.text();
}

Sheet split_sheet(const Comparison& split) {
  Table table({"name: of one step", "operations", "predicted_s: predicted", "measured_s: measured",
               "ratio: measured/predicted"});
  const auto add = [&table](const std::vector<ComparedRow>& rows, const char* what) {
    Value list = empty_array();
    for (const ComparedRow& row : rows) {
      list.append(table.row({{"name", {row.name, fmt::format("{} {}", what, row.name)}},
                             {"operations", row.measured.operations},
                             {"predicted_s", row.predicted.time},
                             {"measured_s", row.measured.time},
                             {"ratio", ratio_value(row.predicted.time, row.measured.time)}}));
    }
    return list;
  };
  Sheet out{{"kinds", add(split.kinds, "kind")}, {"lanes", add(split.lanes, "lane")}};
  out.print("\n" + table.text() +
            "One rank of each stage, means over all steps but the first. Lanes run side by side, "
            "so operations do\nnot add up to the step.\n\n");
  return out;
}

Sheet memory_sheet(const RunMemory& memory) {
  const ProcessUse& use = memory.predicted;
  Sheet out{{"slab_bytes", memory.placed},
            {"resident_bytes", memory.measured.resident},
            {"locked_bytes", memory.measured.locked},
            {"maps", memory.measured.maps},
            {"beside_slabs_bytes", memory.beside_slabs()},
            {"predicted_beside_slabs_bytes", use.total()},
            {"predicted_parts", Sheet{{"program", use.program},
                                      {"text", use.text},
                                      {"programs", use.programs},
                                      {"stacks", use.stacks},
                                      {"engines", use.engines},
                                      {"timeline", use.timeline},
                                      {"copy", use.copy}}}};
  out.say(
      "Memory: slabs {slab_bytes} as placed; beside them the process holds "
      "{beside_slabs_bytes}, predicted {predicted_beside_slabs_bytes}");
  return out;
}

Sheet check_sheet(const RunReport& report) {
  Table table(
      {"quantity: check", "difference", "tolerance", "unit:", "agrees:", "where: greatest at"});
  for (const CheckRow& row : report.check)
    table.row({{"quantity", row.quantity},
               {"difference", number("{:.2e}", row.difference)},
               {"tolerance", number("{:.0e}", row.tolerance)},
               {"unit", row.unit},
               {"where", {row.where, row.only_zeros ? "nothing but zeros to compare" : row.where}},
               {"only_zeros", row.only_zeros},
               {"agrees", {row.agrees(), row.agrees() ? "ok" : "DIFFERS"}}});
  Sheet out{{"agrees", report.agrees()}};
  out.print("\n");
  out.table("rows", table);
  return out;
}

}  // namespace

bool RunReport::agrees() const {
  return std::all_of(check.begin(), check.end(), [](const CheckRow& row) { return row.agrees(); });
}

Sheet run_sheet(const PlannedJob& planned, const RunReport& report) {
  const Plan& plan = planned.plan;
  Sheet out("zplan.run/1");
  out.facts({{"fingerprint", planned.fingerprint},
             {"model", plan.model},
             {"kernel_set", plan.kernel_set},
             {"ranks", counted(planned.job.world(), "rank")},
             {"tokens_per_step", plan.batch.global_batch * plan.batch.sequence},
             {"data", data_sheet(plan.batch, report)},
             {"interrupted", report.interrupted},
             {"first_step", report.begin.step + 1},
             {"steps", steps_table(planned, report)},
             {"validations", validations_table(report.validations)},
             {"kernels", kernels_table(report.choices)},
             {"nvme", report.storage ? storage_sheet(*report.storage) : Value()},
             {"checkpoints", report.saves ? saves_sheet(*report.saves) : Value()},
             {"weights", report.weights.empty() ? Value(nullptr, "-") : Value(report.weights)},
             {"exported", report.exported ? export_sheet(*report.exported) : Value()},
             {"measured_step_s", report.measured},
             {"predicted_step_s", report.predicted},
             {"split", report.split ? split_sheet(*report.split) : Value()},
             {"memory", report.memory ? memory_sheet(*report.memory) : Value()},
             {"check", report.checked ? check_sheet(report) : Value()}});
  out.say("{model} on {ranks} of this machine, {kernel_set}");
  for (const std::string& line : plan_lines(plan, planned.model)) out.say("{}", {line}, 2);
  if (!report.begin.path.empty())
    out.say("Goes on after step {} of {}", {grouped(report.begin.step), report.begin.path}, 2);
  if (!report.weights.empty()) out.say("Begins with the weights in {weights}", {}, 2);
  out.show({"data", "nvme"});
  out.print("\n");
  out.show({"steps"});
  if (report.interrupted)
    out.say("interrupted after {} of {}",
            {count_of(report.last_step(), "step"), grouped(report.steps_wanted)});
  if (!report.validations.empty()) out.show({"validations"});
  if (!report.choices.empty()) out.show({"kernels"});
  out.show({"check"});
  out.show({"checkpoints", "exported"});
  if (report.measured) out.print(times_text(out, report, plan.hardware));
  out.show({"split", "memory"});
  out.say("Fingerprint {fingerprint}");
  return out;
}

}  // namespace zplan
