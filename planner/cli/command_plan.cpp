#include "planner/cli/answer.h"
#include "planner/cli/commands.h"
#include "planner/cli/output.h"

namespace zplan {

ExitCode execute(const ShowText& command) {
  write_stdout(command.text);
  return ExitCode::kOk;
}

ExitCode execute(const PlanCommand& command) {
  if (!command.output.empty()) check_writable(command.output);
  const Answer answer = find_answer(command);
  if (!answer.best) complain(misfit_line(answer));
  if (answer.best && !command.output.empty()) {
    write_file(command.output, to_json(answer.best->planned.plan));
  }
  write_stdout(command.json ? answer_json(answer) : answer_text(answer, command));
  return answer.best ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace zplan
