#include "planner/cli/commands.h"
#include "planner/cli/diff/diff.h"
#include "planner/cli/frame/output.h"

namespace zplan {

ExitCode execute(const DiffCommand& command) {
  write_answer(diff_sheet(find_diff(command)), command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
