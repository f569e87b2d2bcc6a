#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "hwprofiles/quantities.h"
#include "planner/cli/commands.h"
#include "planner/cli/foreign/check.h"
#include "planner/cli/foreign/setup_cluster.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/expert_load.h"
#include "planner/cli/predict/measured_use.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/foreign/frameworks/config_file.h"
#include "planner/foreign/frameworks/trained_keys.h"
#include "planner/foreign/hugging_face/write_config.h"
#include "planner/foreign/model_file.h"
#include "planner/plan/plan_difference.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

constexpr std::size_t kMostChanges = 3;
constexpr double kLeastGain = 0.01;  // of a step, that is worth an edit

std::string decisions_words(const Plan& before, const Plan& after) {
  std::vector<std::string> words;
  for (const DecisionChange& change : plan_difference(before, after))
    words.push_back(fmt::format("{} {} -> {}", change.pointer.substr(change.pointer.rfind('/') + 1),
                                change.before, change.after));
  return joined(words, ", ");
}

// The fastest of the plans that fit and take less than `limit`, kMostChanges at most.
std::vector<Plan> fastest_of(const std::vector<Plan>& plans, const Evaluator& evaluator,
                             Seconds limit) {
  std::vector<std::pair<Seconds, const Plan*>> bounds, times;
  for (const Plan& plan : plans) {
    if (const Estimate e = evaluator.estimate(plan); e.infeasible || e.bound >= limit) continue;
    const Fit fit = evaluator.fit(plan);
    if (!fit.infeasible && fit.slack == plan.slack) bounds.emplace_back(fit.bound, &plan);
  }
  std::ranges::stable_sort(bounds, {}, [](const auto& each) { return each.first; });
  for (const auto& [bound, plan] : bounds) {
    if (bound >= limit) break;
    const Seconds step = evaluator.simulate(*plan);
    if (step < limit) times.emplace_back(step, plan);
    std::ranges::stable_sort(times, {}, [](const auto& each) { return each.first; });
    if (times.size() > kMostChanges) times.pop_back();
    if (times.size() == kMostChanges) limit = times.back().first;
  }
  std::vector<Plan> fastest;
  for (const auto& [step, plan] : times) fastest.push_back(*plan);
  return fastest;
}

void find_changes(Check& check, const JsonNode& root, const Surroundings& around) {
  const Plan& plan = check.setup.plan;
  const ModelConfig& model = check.planned->model;
  const Seconds limit = check.memory.infeasible ? Seconds{std::numeric_limits<double>::infinity()}
                                                : check.time->sim.period * (1 - kLeastGain);
  for (const Plan& other : fastest_of(neighbours_of(*check.framework, plan, model, check.cluster),
                                      make_evaluator(model, check.cluster), limit))
    if (auto edits = edits_to(*check.framework, root, around, plan, other))
      check.changes.push_back({decisions_words(plan, other), std::move(*edits),
                               try_plan(other, model, check.cluster, false)});
}

// Where it fits without the slack of our own placement only, it is placed without, as in a search.
PlannedJob placed(Plan plan, const ModelConfig& model, const Cluster& cluster) {
  PlannedJob planned = build_job(plan, model);
  if (!predict_memory(planned, cluster).infeasible) return planned;
  plan.slack = 0;
  PlannedJob tight = build_job(plan, model);
  return predict_memory(tight, cluster).infeasible ? std::move(planned) : std::move(tight);
}

void predict(Check& check, const CheckCommand& command, const ModelConfig& model, StackUse use) {
  check.planned = placed(check.setup.plan, model, check.cluster);
  learn_measured(command.question.measured, {command.config, *check.planned, check.cluster}, use);
  take_over(use, check.cluster);
  check.anchors = std::move(use.anchors);
  check.memory_calibration = std::move(use.memory);
  check.memory = predict_memory(*check.planned, check.cluster, use.evidence);
  check.time = predict_time(*check.planned, check.cluster, use.evidence);
  check.time->experts = expert_load(*check.planned, check.cluster);
}

std::optional<ModelConfig> described_model(const ConfigFile& config) {
  return config.framework->model == nullptr ? std::nullopt : config.framework->model(config.root);
}

// The one that is asked about, else the one that the configuration describes.
ModelConfig model_of(const PlanCommand& question, const ConfigFile& config) {
  if (!question.model.empty()) {
    NamedModel named = load_named_model(question.model);
    tell_left_out(question.model, named.left_out);
    return std::move(named.model);
  }
  if (auto model = described_model(config)) return std::move(*model);
  config.root.fail("expected --model beside it, as it describes no model");
}

constexpr std::string_view kImbalance = "/experts/imbalance";

// Where both say a model, they may differ.
void compare_models(const PlanCommand& question, const ConfigFile& config, const ModelConfig& model,
                    Setup& setup) {
  if (question.model.empty()) return;
  const auto described = described_model(config);
  if (!described) return;
  const std::vector<std::string> differences = config_differences(model, *described);
  if (!differences.empty())
    setup.findings.push_back({Trouble::kContradicts, "", "--model",
                              fmt::format("counts; the configuration describes another: {}",
                                          joined(differences, ", "))});
}

// The formats of the states, of which several may be asked for.
void compare_recipes(const Pins& asked, Setup& setup) {
  const std::string_view own = recipe_name(recipe_index(setup.plan));
  const bool is_asked = std::ranges::any_of(asked.recipes, [&](const std::string& recipe) {
    return recipe == own || recipe == kAnyRecipe;
  });
  if (asked.recipes.empty() || is_asked) return;
  setup.findings.push_back(
      {Trouble::kContradicts, "", "--precision",
       fmt::format("{} is asked for and {} counts, which the framework has here",
                   joined(asked.recipes, " or "), own)});
}

// What is asked for and the configuration decides.
void compare_asked(const Pins& asked, Setup& setup) {
  Plan wanted = setup.plan;
  asked.apply(wanted);
  for (const DecisionChange& change : plan_difference(setup.plan, wanted))
    setup.findings.push_back(
        {Trouble::kContradicts, "", std::string(decision(change.pointer).option.name),
         fmt::format("{} is asked for and {} counts, which the framework has here", change.after,
                     change.before)});
  compare_recipes(asked, setup);
  if (asked.bucket)
    setup.findings.push_back(
        {Trouble::kNoEffect, "", "--bucket",
         fmt::format("the framework gathers by {} here, whatever is asked for",
                     setting_text(decision("/gather/unit").field.get(setup.plan)))});
}

// Options that only some frameworks have a use for.
void compare_options(const CheckCommand& command, const Framework& framework, Setup& setup) {
  if (command.with_trainer && !framework.has_auto)
    setup.findings.push_back(
        {Trouble::kNoEffect, "", "--with hf",
         fmt::format("{} has no \"auto\" that another program fills in", framework.title)});
}

}  // namespace

ExitCode execute(const CheckCommand& command) {
  const PlanCommand& question = command.question;
  Cluster cluster = with_changes(load_cluster(question.cluster), parse_changes(question.changes));
  cluster.headroom = question.headroom;
  if (question.pins.ranks > cluster.devices())
    throw_bad_input(fmt::format("--gpus: expected at most {}, which {} has, got {}",
                                cluster.devices(), cluster.name, question.pins.ranks));
  const ConfigFile config = read_config(command.config);
  const ModelConfig model = model_of(question, config);
  Check check{.framework = config.framework};
  const DeviceProfile device = cluster.node.device;
  std::vector<Finding> of_adapter;
  Pins asked = question.pins;
  if (!command.adapter.empty()) take_adapter(command.adapter, model, asked, of_adapter);
  const Surroundings around{
      .model = model,
      .device = device,
      .ranks = question.pins.ranks > 0 ? question.pins.ranks : cluster.devices(),
      .with_trainer = command.with_trainer,
      .asked = asked,
      .devices_per_node = cluster.node.devices_per_node};
  check.setup = config.framework->read(config.root, around);
  std::ranges::copy(config.findings, std::back_inserter(check.setup.findings));
  std::ranges::copy(of_adapter, std::back_inserter(check.setup.findings));
  // The question decides, since configurations do not say how uneven the router is.
  if (model.experts && question.pins.has(kImbalance))
    check.setup.plan.expert_imbalance = question.pins.values().expert_imbalance;
  compare_models(question, config, model, check.setup);
  compare_asked(asked, check.setup);
  compare_options(command, *check.framework, check.setup);
  if (!question.stack.empty()) check.setup.stack = question.stack;
  check.setup.plan.hardware = cluster.name;
  SetupCluster setup = cluster_of_setup(check.setup, std::move(cluster));
  check.cluster = std::move(setup.cluster);
  if (auto why = no_plan(check.setup.plan, model, check.cluster)) {
    check.illegal = std::move(*why);
  } else {
    predict(check, command, model, std::move(setup.use));
    find_changes(check, config.root, around);
  }
  write_answer(check_sheet(check), command.json);
  if (check.setup.is_broken() || !check.illegal.empty()) return ExitCode::kCheckFailed;
  return check.memory.infeasible ? ExitCode::kInfeasible : ExitCode::kOk;
}

}  // namespace zplan
