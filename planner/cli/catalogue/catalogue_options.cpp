#include <string>
#include <utility>
#include <vector>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/node_file.h"
#include "models/model_template.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/foreign/model_file.h"

namespace zplan {
namespace {

void require_name(const std::string& name, bool json) {
  if (name.empty()) throw_bad_input("--template: expected a NAME beside it, whose file is printed");
  if (json) throw_bad_input("--template: expected no --json, a template is JSON already");
}

}  // namespace

Command parse_models(const std::vector<std::string>& arguments) {
  ModelsCommand command;
  bool is_template = false;
  Syntax syntax("List the models, or show one with its sources", "zplan models [NAME] [options]",
                "\nExamples:\n  ./zplan models\n  ./zplan models gpt3 --json\n"
                "  ./zplan models llama3-8b --template > my-model.json\n");
  std::vector<std::string> words;
  syntax.positionals("NAME", words,
                     "A name, a .json file, or a folder with a config.json of Hugging Face");
  syntax.flag("--template", is_template,
              "Print it as a whole model file to edit (zplan schema zplan.model/1)");
  syntax.flag("--json", command.json, "Print JSON (zplan.models/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  command.name = joined(words, " ");
  if (!is_template) return command;
  require_name(command.name, command.json);
  return ShowText{model_template(load_named_model(command.name).model)};
}

Command parse_software(const std::vector<std::string>& arguments) {
  SoftwareCommand command;
  Syntax syntax("List the software that plans are made for (--for), and what was measured with it",
                "zplan software [NAME] [options]",
                "\nExamples:\n  ./zplan software\n  ./zplan software megatron@2022\n");
  syntax.positional("NAME", command.name, "A name, NAME@YEAR, or a .json file");
  syntax.flag("--json", command.json, "Print JSON (zplan.software/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return command;
}

Command parse_clusters(const std::vector<std::string>& arguments) {
  ClustersCommand command;
  std::vector<std::string> changes;
  bool is_template = false;
  Syntax syntax("List the kinds of nodes, or show a cluster with the sources of its numbers",
                "zplan clusters [NAME] [options]",
                "\nExamples:\n  ./zplan clusters\n  ./zplan clusters dgx2x32\n"
                "  ./zplan clusters dgx-h100x16 --set gpu.memory=40GiB\n"
                "  ./zplan clusters dgx-h100 --template > my-node.json\n");
  std::vector<std::string> words;
  syntax.positionals("NAME", words, "16xH100, NODE or NODExCOUNT, or a .json file");
  add_changes(syntax, changes);
  syntax.flag("--template", is_template,
              "Print its node as a whole file to edit (zplan schema zplan.hw/1)");
  syntax.flag("--json", command.json, "Print JSON (zplan.clusters/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  command.name = joined(words, " ");
  if (command.name.empty() && !changes.empty())
    throw_bad_input("--set: expected a cluster to change, as in: zplan clusters dgx2x32 --set ..");
  command.name = with_settings(command.name, changes);
  if (!is_template) return command;
  require_name(command.name, command.json);
  return ShowText{hardware_template(command.name)};
}

}  // namespace zplan
