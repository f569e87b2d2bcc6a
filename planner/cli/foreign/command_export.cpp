#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <variant>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/foreign/export.h"
#include "planner/cli/foreign/setup_cluster.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/foreign/frameworks/export_files.h"
#include "planner/foreign/frameworks/round_trip.h"
#include "planner/foreign/model_file.h"
#include "planner/plan/choices.h"

namespace zplan {
namespace {

std::vector<Dropped> dropped_of(const Plan& plan, const Setup& setup, const ModelConfig& model,
                                const Cluster& cluster) {
  std::vector<Dropped> out;
  for (const DecisionChange& change : plan_difference(plan, setup.plan))
    if (!does_as_planned(setup, change.pointer))
      out.push_back({change, try_plan(with_decision(plan, setup.plan, change.pointer), model,
                                      cluster, true)});
  return out;
}

void write_files(const std::string& directory, const std::vector<OutputFile>& files,
                 std::vector<std::string>& written) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw_bad_input(fmt::format("{}: cannot be made: {}", directory, error.message()));
  for (const OutputFile& file : files) {
    const std::string path = directory + "/" + file.name;
    write_file(path, file.text);
    if (file.is_program) std::filesystem::permissions(path, std::filesystem::perms(0755), error);
    written.push_back(path);
  }
}

// An option of `check` that says a decision; nothing where it is plain.
std::string option_of(const Decision& row, const Plan& plan) {
  if (row.is_plain(plan)) return "";
  const Setting setting = row.field.get(plan);
  if (const bool* const is_on = std::get_if<bool>(&setting))
    return fmt::format(" {}", *is_on ? row.option.name : row.option.back);
  return fmt::format(" {} {}", row.option.name, shell_word(setting_text(setting)));
}

// The command that reads the first file back, with what the training script is told.
std::string check_command(const ExportCommand& command, const Framework& framework,
                          const Plan& plan, const Cluster& cluster) {
  const PlanCommand& question = command.source.question;
  const std::string file = command.directory + "/" + std::string(framework.file);
  std::string out = fmt::format("zplan check {} --model {} --cluster {}", shell_word(file),
                                shell_word(plan.model), shell_word(plan.hardware));
  if (plan.parallel.ranks() < cluster.node.devices_per_node)
    out += fmt::format(" --gpus-per-node {}", plan.parallel.ranks());
  const Pins said = framework.said(plan);
  for (const Decision& row : kChoices)
    if (said.has(row.pointer)) out += option_of(row, said.values());
  for (const std::string& change : question.changes) out += " --set " + shell_word(change);
  if (question.headroom != kUsualHeadroom) out += fmt::format(" --headroom {}", question.headroom);
  return out;
}

// Plans that are searched for are those of today's version, which the files are for, on any
// devices.
std::string newest_of(const std::string& target) {
  return fmt::format("{}@{}", target, load_stack(target).year);
}

// Throws Error where the framework does not have the model, before a plan is searched for.
void require_model(const Framework& framework, const PlanCommand& question) {
  const ModelConfig model = load_named_model(question.model).model;
  Plan plain;
  plain.batch.sequence = model.sequence;
  plain.kernel_set = load_cluster(question.cluster).node.device.kernel_set;
  if (const auto other = other_model(framework, plain, model))
    throw_bad_input(
        fmt::format("{} does not have the model {}: {}", framework.title, model.name, *other));
}

}  // namespace

ExitCode execute(const ExportCommand& command) {
  const Framework& framework = find_framework(command.target);
  PlanSource source = command.source;
  // A plan that is searched for is one that the framework can run, as fast as it runs it.
  if (source.plan.empty()) {
    require_model(framework, source.question);
    source.question.must_be_said = true;
    if (source.question.stack.empty()) source.question.stack = newest_of(command.target);
  }
  std::optional<ChosenPlan> chosen = choose_plan(source);
  if (!chosen) return ExitCode::kInfeasible;
  const Plan& plan = chosen->planned.plan;
  const ModelConfig& model = chosen->planned.model;
  Export answer{.framework = &framework,
                .setup = read_back(framework, plan, model, chosen->cluster)};
  // What a configuration of a user's may have left out.
  std::erase_if(answer.setup.findings, [](const Finding& finding) {
    return finding.trouble == Trouble::kAssumed && finding.key.empty();
  });
  const Cluster& cluster = chosen->cluster;
  answer.plan = try_plan(plan, model, cluster, true);
  answer.all = try_plan(answer.setup.plan, model, cluster, true);
  answer.there =
      try_plan(answer.setup.plan, model, cluster_of_setup(answer.setup, cluster).cluster, true);
  answer.dropped = dropped_of(plan, answer.setup, model, cluster);
  ExportFiles files = export_files(framework, plan, model, cluster);
  std::ranges::move(files.findings, std::back_inserter(answer.setup.findings));
  if (!command.directory.empty()) {
    write_files(command.directory, files.files, answer.files);
    answer.check = check_command(command, framework, plan, cluster);
  }
  write_answer(export_sheet(answer), command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
