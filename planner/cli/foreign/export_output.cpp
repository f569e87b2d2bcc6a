#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/foreign/export.h"
#include "planner/cli/foreign/findings_output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

// "+3.1 s, -2.0 GiB", beside the plan as it is.
std::string cost_words(const Trial& trial, const Trial& plan) {
  if (!trial.illegal.empty()) return "no plan by itself: " + trial.illegal;
  const double more = trial.step->value - plan.step->value;
  const Bytes bytes = trial.gpu - plan.gpu;
  const bool less = bytes.value < 0;
  return fmt::format("{}{}, {}{} per GPU{}", more < 0 ? "-" : "+",
                     format_seconds(Seconds{std::abs(more)}), less ? "-" : "+",
                     format_bytes(less ? Bytes{-bytes.value} : bytes),
                     trial.fits ? "" : ", which does not fit");
}

Sheet trial_sheet(const Trial& trial) {
  return {{"illegal", trial.illegal.empty() ? Value() : Value(trial.illegal)},
          {"fits", trial.fits},
          {"gpu_bytes", trial.gpu},
          {"step_s", trial.step}};
}

Table dropped_table(const Export& answer) {
  Table table({"decision", "plan", "framework: instead", "cost: costs"});
  for (const Dropped& each : answer.dropped)
    table.row({{"decision", each.change.pointer},
               {"plan", each.change.before},
               {"framework", each.change.after},
               {"cost", only_words(cost_words(each.alone, answer.plan))},
               {"alone", trial_sheet(each.alone)}});
  return table;
}

}  // namespace

Sheet export_sheet(const Export& answer) {
  Sheet out("zplan.export/1");
  out.facts({{"framework", answer.framework->title},
             {"version", answer.setup.version},
             {"files", answer.files},
             {"check", answer.check.empty() ? Value() : Value(answer.check)},
             {"plan", trial_sheet(answer.plan)},
             {"exported", trial_sheet(answer.all)},
             {"there", trial_sheet(answer.there)}});
  const bool is_whole = answer.dropped.empty();
  const bool is_model = std::ranges::find(answer.setup.findings, "model", &Finding::key) ==
                        answer.setup.findings.end();
  if (!is_model)
    out.print(fmt::format("{} {} does not have the plan's model, below.\n", answer.framework->title,
                          answer.setup.version));
  out.print(is_whole ? fmt::format("{} {} can say all of the plan's decisions.\n",
                                   answer.framework->title, answer.setup.version)
                     : fmt::format("{} {} does {} of the plan's decisions otherwise: {}.\n",
                                   answer.framework->title, answer.setup.version,
                                   answer.dropped.size(), cost_words(answer.all, answer.plan)));
  if (answer.there.step)
    out.print(fmt::format("With its own kernels and buffers a step takes {}, {} per GPU{}.\n",
                          format_seconds(*answer.there.step), format_bytes(answer.there.gpu),
                          answer.there.fits ? "" : ", which does NOT fit"));
  if (!is_whole) out.print("\nWhat it does instead, each by itself\n");
  out.table("dropped", dropped_table(answer), kIndent);
  say_findings(out, "Notes", answer.setup, false);
  if (!answer.files.empty()) out.print("\nWritten\n");
  for (const std::string& file : answer.files) out.print("  " + file + "\n");
  if (!answer.check.empty())
    out.print(fmt::format("\nCheck it, and changes that you make\n  {}\n", answer.check));
  return out;
}

}  // namespace zplan
