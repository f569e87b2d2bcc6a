#include <utility>

#include "hwprofiles/cluster_name.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"

namespace zplan {

Command parse_diff(const std::vector<std::string>& arguments) {
  DiffCommand command;
  Syntax syntax(
      "Compare two plans: decisions, memory, step, and time operation by operation by role",
      "zplan diff A.json B.json [options]",
      "\nExamples:\n"
      "  ./zplan diff plan.json other.json\n"
      "  ./zplan diff plan.json other.json --cluster workstation --json\n");
  syntax.positional("A.json", command.before, "A plan (zplan plan .. -o A.json)");
  syntax.positional("B.json", command.after, "Another plan");
  syntax.text("-c,--cluster", command.cluster, "C", "Where to, instead of what the plans name");
  syntax.text("--for,--stack", command.stack, "S",
              "Whose software sets the costs: nemo2024 .. or a .json file [own]");
  std::vector<std::string> changes;
  add_changes(syntax, changes);
  add_headroom(syntax, command.headroom);
  syntax.flag("--json", command.json, "Print JSON (zplan.diff/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  command.cluster = with_settings(command.cluster, changes);
  if (!command.after.empty()) return command;
  throw_bad_input("expected two plans, as in: zplan diff plan.json other.json");
}

}  // namespace zplan
