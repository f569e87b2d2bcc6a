#include <utility>

#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"

namespace zplan {

Command parse_doctor(const std::vector<std::string>& arguments) {
  DoctorCommand command;
  Syntax syntax("Show what this machine has for zplan, and what is missing for what",
                "zplan doctor [options]",
                "\nExamples:\n  ./zplan doctor\n  ./zplan doctor --nvme-dir /mnt/nvme --json\n");
  syntax.text("--nvme-dir", command.nvme_directory, "DIR",
              "Also try a folder on NVMe, for offloading; what is written there is removed");
  syntax.flag("--json", command.json, "Print JSON (zplan.doctor/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return command;
}

}  // namespace zplan
