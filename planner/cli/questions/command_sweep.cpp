#include <algorithm>

#include "planner/cli/commands.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/questions/sweep_rows.h"

namespace zplan {

ExitCode execute(const SweepCommand& command) {
  const std::vector<SweepRow> rows = sweep(command);
  if (command.csv) {
    write_stdout(sweep_csv(command, rows));
  } else {
    write_answer(sweep_sheet(command, rows), command.json);
  }
  if (InterruptGuard::interrupted()) return ExitCode::kInterrupted;
  const bool any = std::any_of(rows.begin(), rows.end(),
                               [](const SweepRow& row) { return row.found.has_value(); });
  return any ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace zplan
