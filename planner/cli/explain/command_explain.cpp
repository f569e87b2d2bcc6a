#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/explain/explanation_output.h"
#include "planner/cli/explain/interval_explanation.h"
#include "planner/cli/explain/search_explanation.h"
#include "planner/cli/explain/state_cuts_output.h"
#include "planner/cli/explain/unexplained.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/search/attention_kernels.h"

namespace zplan {
namespace {

constexpr const char* kPlacement = "placement";  // of model states: WHAT that is no number

bool has_name(const Explanation& e, const std::string& what) {
  return e.what == what || std::find(e.also.begin(), e.also.end(), what) != e.also.end();
}

const Explanation& find(const Explanations& all, std::string what) {
  if (what.starts_with('.')) what.erase(0, 1);  // as jq writes it
  for (const Explanation& e : all)
    if (has_name(e, what)) return e;
  std::vector<std::string> names{kPlacement};
  for (const Explanation& e : all) {
    if (e.what.ends_with("." + what)) return e;
    if (e.what.find('[') == std::string::npos) names.push_back(e.what);
  }
  if (const auto why = why_unexplained(what))
    throw_bad_input(fmt::format("WHAT: {} has no explanation: {}", in_quotes(what), *why));
  throw_bad_input(fmt::format("WHAT: expected a number of the answer such as time.mfu, got {}{}",
                              in_quotes(what),
                              nearest_or_page(what, names, "zplan explain without WHAT")));
}

Explanations all_of(const ChosenPlan& chosen) {
  const PlannedJob& planned = chosen.planned;
  const Cluster& cluster = chosen.cluster;
  const TimePrediction time =
      chosen.time ? *chosen.time : predict_time(planned, cluster, chosen.evidence);
  Explanations all = explain({.plan = planned.plan,
                              .job = planned.job,
                              .model = planned.model,
                              .cluster = cluster,
                              .use = chosen.memory.use,
                              .report = chosen.memory.report,
                              .stack = chosen.memory.stack,
                              .sim = time.sim,
                              .split = time.split,
                              .throughput = time.throughput,
                              .model_flops = model_flops(planned)});
  explain_interval(time, chosen.evidence, cluster.node, kind_of(planned.plan, cluster), all);
  if (chosen.search) explain_search(*chosen.search, planned.model, cluster, chosen.pins, all);
  return all;
}

}  // namespace

ExitCode execute(const ExplainCommand& command) {
  const std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return ExitCode::kInfeasible;
  if (command.what == kPlacement) {
    write_answer(state_cuts_sheet(chosen->planned.plan, chosen->planned.model, chosen->cluster),
                 command.json);
    return ExitCode::kOk;
  }
  const Explanations all = all_of(*chosen);
  if (!command.what.empty()) {
    write_answer(explanation_sheet(find(all, command.what)), command.json);
    return ExitCode::kOk;
  }
  const PlannedJob& planned = chosen->planned;
  write_answer(
      explanations_sheet(all, kernel_set_words(planned.plan, planned.model, chosen->cluster)),
      command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
