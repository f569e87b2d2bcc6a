#include <utility>

#include "planner/cli/commands.h"
#include "planner/cli/doctor/doctor.h"

namespace zplan {

ExitCode execute(const DoctorCommand& command) {
  HostFindings findings = examine_cuda();
  for (HostFindings& more : std::vector{examine_host(), examine_storage(command.nvme_directory)})
    for (HostFinding& finding : more) findings.push_back(std::move(finding));
  write_answer(findings_sheet(findings), command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
