#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/foreign/check.h"
#include "planner/cli/foreign/findings_output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string errors_words(const Setup& setup) {
  const auto count = std::ranges::count_if(setup.findings, [](const Finding& finding) {
    return finding.trouble == Trouble::kError || finding.trouble == Trouble::kRemoved;
  });
  return count_of(count, "error");
}

std::string verdict(const Check& check) {
  const std::string title = fmt::format("{} {}", check.framework->title, check.setup.version);
  const std::string stops =
      check.setup.is_broken()
          ? fmt::format("{} stops: {}; without {}: ", title, errors_words(check.setup), "them")
          : "";
  if (!check.illegal.empty()) return fmt::format("{}not a plan: {}", stops, check.illegal);
  const MemoryPrediction& memory = check.memory;
  const TierUse& gpu = memory.use[static_cast<std::size_t>(Tier::kGpu)];
  const std::string step = fmt::format("{} a step", format_seconds(check.time->sim.period));
  if (memory.infeasible)
    return fmt::format("{}does NOT fit: {}; with enough memory {}", stops,
                       shortage(*memory.infeasible), step);
  return fmt::format("{}fits: {} of {} per GPU, at most {} in 19 of 20 runs; {}", stops,
                     format_bytes(memory.stack.device.central), format_bytes(gpu.capacity),
                     format_bytes(memory.stack.device.bound), step);
}

// The fullest moment of a GPU.
const TierMemory& peak_of(const MemoryReport& report) {
  const auto gpu = [](const ClassMemory& each) -> const TierMemory& {
    return each.tiers[static_cast<std::size_t>(Tier::kGpu)];
  };
  return gpu(*std::ranges::max_element(
      report.classes, {}, [&](const ClassMemory& each) { return gpu(each).live_peak.value; }));
}

Sheet peak_sheet(const TierMemory& peak) {
  Table largest({"name", "category", "bytes"});
  for (const LiveBuffer& buffer : peak.largest)
    largest.row(
        {{"name", buffer.name}, {"category", name(buffer.category)}, {"bytes", buffer.size}});
  Sheet out({{"operation", peak.peak_op}, {"live_bytes", peak.live_peak}});
  out.say("Peak of a GPU at {operation}: {live_bytes} alive, the largest");
  out.table("largest", largest, kIndent);
  return out;
}

std::string gain_words(const Check& check, const ConfigChange& change) {
  const double was = check.time->sim.period.value, is = change.trial.step->value;
  return fmt::format("{} a step ({}{})", format_seconds(*change.trial.step), is > was ? "+" : "-",
                     format_seconds(Seconds{std::abs(is - was)}));
}

Value changes_value(const Check& check) {
  Value out = empty_array();
  int number = 0;
  for (const ConfigChange& change : check.changes) {
    Table edits({"edit", "key", "before", "after", "object", "place"});
    for (const KeyEdit& edit : change.edits)
      edits.row({{"edit", name(edit.kind)},
                 {"key", edit.key},
                 {"before", edit.before},
                 {"after", edit.after},
                 {"object", edit.object},
                 {"place", edit.place}});
    const Sheet sheet{{"what", change.what},
                      {"step_s", change.trial.step},
                      {"gpu_bytes", change.trial.gpu},
                      {"edits", edits.json()}};
    out.append(sheet);
    out.words += paragraph(fmt::format("{}. {}: {}, {} per GPU", ++number, change.what,
                                       gain_words(check, change), format_bytes(change.trial.gpu)),
                           kIndent);
    for (const KeyEdit& edit : change.edits)
      out.words += fmt::format("       {}{}\n", edit.words,
                               edit.place.empty() ? "" : fmt::format("   ({})", edit.place));
  }
  return out;
}

}  // namespace

Sheet check_sheet(const Check& check) {
  Sheet out("zplan.check/1");
  const std::string line = verdict(check);
  out.facts({{"verdict", line},
             {"framework", check.framework->title},
             {"version", check.setup.version},
             {"fits", check.planned && !check.memory.infeasible},
             {"starts", !check.setup.is_broken()}});
  out.print(paragraph(line));
  out.facts({{"anchors", anchors_value(check.anchors)},
             {"memory_calibration", memory_calibration_value(check.memory_calibration)}});
  std::string calibrations = out["anchors"].words + out["memory_calibration"].words;
  if (!calibrations.empty()) {
    calibrations.pop_back();  // the empty line after them
    out.print("\n" + calibrations);
  }
  say_findings(out, "What is wrong with it, or assumed", check.setup, true);
  out.fact("illegal", check.illegal.empty() ? Value() : Value(check.illegal));
  if (!check.planned) return out;
  out.print("\n");
  const Sheet memory = memory_sheet(check.memory, kIndent);
  say_plan(out, *check.planned, check.cluster, check.memory, memory);
  const Sheet time = time_sheet(*check.planned, *check.time, kIndent);
  out.fact("time", time);
  out.heading("Time");
  out.show({"time"});
  out.say("limited by {}", {time["limits"].words}, kIndent);
  out.say("certainty: {}", {time["certainty"].words}, kIndent);
  say_memory(out, memory);
  const Sheet peak = peak_sheet(peak_of(check.memory.report));
  out.print("\n");
  out.fact("peak", peak);
  out.show({"peak"});
  if (check.memory.stand_in.empty())
    out.heading(
        "As the allocator of the framework's software holds it (one GPU), which the verdict "
        "counts");
  else
    out.heading(
        "As a caching allocator would hold it (one GPU), where the verdict counts our placement");
  out.print(memory["allocator"].words);
  if (!check.changes.empty()) out.print("\nChanges that gain most\n");
  out.fact("changes", changes_value(check));
  out.show({"changes"});
  return out;
}

}  // namespace zplan
