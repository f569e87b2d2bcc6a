#include <utility>

#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"

namespace zplan {

Command parse_models(const std::vector<std::string>& arguments) {
  ModelsCommand command;
  Syntax syntax("List the models, or show one with its sources", "zplan models [NAME] [options]",
                "\nExamples:\n  ./zplan models\n  ./zplan models gpt3 --json\n");
  syntax.positional("NAME", command.name,
                    "A name, a .json file, or a folder with a config.json of Hugging Face");
  syntax.flag("--json", command.json, "Print JSON (zplan.models/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return command;
}

Command parse_clusters(const std::vector<std::string>& arguments) {
  ClustersCommand command;
  Syntax syntax("List the kinds of nodes, or show a cluster with the sources of its numbers",
                "zplan clusters [NAME] [options]",
                "\nExamples:\n  ./zplan clusters\n  ./zplan clusters dgx2x32\n");
  syntax.positional("NAME", command.name, "NODE or NODExCOUNT, or a .json file");
  syntax.flag("--json", command.json, "Print JSON (zplan.clusters/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return command;
}

}  // namespace zplan
