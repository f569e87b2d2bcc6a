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

namespace zplan {
namespace {

// What the framework does as the plan says, where only what is counted of it here differs.
bool is_done(const Setup& setup, std::string_view pointer) {
  return std::ranges::any_of(setup.findings, [&](const Finding& finding) {
    return finding.trouble == Trouble::kNotModelled && finding.key == pointer;
  });
}

std::vector<Dropped> dropped_of(const Plan& plan, const Setup& setup, const ModelConfig& model,
                                const Cluster& cluster) {
  std::vector<Dropped> out;
  for (const DecisionChange& change : plan_difference(plan, setup.plan))
    if (!is_done(setup, change.pointer))
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

Setup read_back(const Framework& framework, const Plan& plan, const ModelConfig& model,
                const Cluster& cluster) {
  const Surroundings around{.model = model,
                            .device = cluster.node.device,
                            .ranks = plan.parallel.ranks(),
                            .with_trainer = false,
                            .asked = framework.said(plan),
                            .devices_per_node = cluster.node.devices_per_node};
  const JsonNode root = parse_json(nested_json(framework.keys(plan, model)), "what was written");
  Setup setup = framework.read(root, around);
  setup.plan.model = plan.model;
  setup.plan.hardware = plan.hardware;
  return setup;
}

ExitCode execute(const ExportCommand& command) {
  const Framework& framework = find_framework(command.target);
  std::optional<ChosenPlan> chosen = choose_plan(command.source);
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
