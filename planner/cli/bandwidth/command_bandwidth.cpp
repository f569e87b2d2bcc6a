#include <fmt/format.h>

#include <optional>
#include <utility>

#include "planner/cli/bandwidth/bandwidth.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/words.h"

namespace zplan {

ExitCode execute(const BandwidthCommand& command) {
  if (command.paper) {
    write_answer(paper_sheet(), command.json);
    return ExitCode::kOk;
  }
  const PlanCommand& question = command.source.question;
  std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return ExitCode::kInfeasible;
  const bool fits = !chosen->memory.infeasible;
  if (!fits && !question.ignore_capacity) {
    complain(fmt::format("{} does not fit on {}: {} (--ignore-capacity looks at it anyway)",
                         command.source.plan, chosen->cluster.name,
                         full_reason(*chosen->memory.infeasible)));
    return ExitCode::kInfeasible;
  }
  write_answer(bandwidth_sheet(find_bandwidth(std::move(*chosen), question.threads)), command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
