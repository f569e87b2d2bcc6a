#include <utility>

#include "planner/cli/commands.h"
#include "planner/cli/doctor/doctor.h"

namespace zplan {

ExitCode execute(const DoctorCommand& command) {
  Findings findings = examine_cuda();
  for (Findings& more : std::vector{examine_host(), examine_storage(command.nvme_directory)})
    for (Finding& finding : more) findings.push_back(std::move(finding));
  write_answer(findings_sheet(findings), command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
