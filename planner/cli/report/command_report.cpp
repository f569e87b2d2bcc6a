#include <optional>

#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/report/report.h"

namespace zplan {

ExitCode execute(const ReportCommand& command) {
  std::vector<std::string> inputs = command.plans;
  inputs.push_back(command.timeline);
  check_outputs({command.output}, inputs);
  check_page();
  const std::optional<Report> report = make_report(command);
  if (!report) return ExitCode::kInfeasible;
  write_file(command.output, report_page(*report, command));
  const auto& why = report->plans.front().simulation.memory.infeasible;
  if (!why) return ExitCode::kOk;
  complain(first_name(command) + " does not fit: " + full_reason(*why));
  return ExitCode::kInfeasible;
}

}  // namespace zplan
