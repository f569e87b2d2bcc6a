#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/foreign/export.h"
#include "planner/cli/foreign/setup_cluster.h"
#include "planner/cli/frame/output.h"
#include "planner/foreign/frameworks/export_files.h"
#include "planner/foreign/frameworks/round_trip.h"

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

}  // namespace

ExitCode execute(const ExportCommand& command) {
  const Framework& framework = find_framework(command.target);
  PlanSource source = command.source;
  // A plan that is searched for is one that the framework can run, as fast as it runs it.
  if (source.plan.empty() && source.question.stack.empty()) source.question.stack = command.target;
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
  if (!command.directory.empty()) write_files(command.directory, files.files, answer.files);
  write_answer(export_sheet(answer), command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
