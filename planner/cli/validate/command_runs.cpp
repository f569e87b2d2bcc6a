#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/validate/run_convert.h"
#include "planner/validate/run_form.h"

namespace zplan {

ExitCode execute(const RunsCommand& command) {
  const RunCatalogues catalogues;
  const RunFile file = read_runs(command.convert);
  for (const std::string& line : file.malformed) complain(line);
  std::string out;
  for (const RunRecord& run : file.runs) out += write_run(converted(run, catalogues)) + "\n";
  write_stdout(out);
  return file.malformed.empty() ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace zplan
