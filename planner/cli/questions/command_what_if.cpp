#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/questions/what_if.h"

namespace zplan {

ExitCode execute(const WhatIfCommand& command) {
  const WhatIf found = find_what_if(command);
  write_answer(what_if_sheet(found), command.json);
  return least_step(found, kChanged) ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace zplan
