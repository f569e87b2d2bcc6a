#include <optional>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/lower/lower.h"
#include "planner/program/text/text.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

std::string program_text(const LowerCommand& command, const PlannedJob& planned) {
  if (!command.no_place) return to_text(planned.job);
  const Job job = lower(planned.plan, planned.model);
  verify_or_throw(job);
  return to_text(job);
}

}  // namespace

ExitCode execute(const LowerCommand& command) {
  check_outputs({command.output}, {command.source.plan});
  const std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return ExitCode::kInfeasible;
  const std::string text = program_text(command, chosen->planned);
  if (command.output.empty()) {
    write_stdout(text);
  } else {
    write_file(command.output, text);
  }
  return ExitCode::kOk;
}

}  // namespace zplan
