#include "planner/cli/calibrate/suggestions.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"

namespace zplan {

ExitCode execute(const SuggestCommand& command) {
  const Suggestions found = find_suggestions(command.question);
  if (!fits(found.answer)) complain(misfit_line(found.answer));
  write_answer(suggestions_sheet(found), command.question.json);
  return fits(found.answer) ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace zplan
