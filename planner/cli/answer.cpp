#include "planner/cli/answer.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "planner/cli/progress.h"
#include "planner/cli/words.h"

namespace zplan {
namespace {

std::string progress_line(const SearchStats& stats) {
  return fmt::format("searching: {} plans, {} lowered, {} simulated", grouped(stats.space),
                     grouped(stats.visited), grouped(stats.simulated));
}

FoundPlan examine(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  FoundPlan found{.planned = build_job(plan, model), .memory = {}, .time = {}};
  found.memory = predict_memory(found.planned, cluster);
  found.time = predict_time(found.planned, cluster);
  return found;
}

// Plans name files as they were typed, so that other commands find them again.
void keep_paths(Plan& plan, const PlanCommand& command) {
  if (names_file(command.model)) plan.model = command.model;
  if (names_file(command.cluster)) plan.hardware = command.cluster;
}

double shortage_ratio(const Infeasible& why) {
  return static_cast<double>(why.needed.value) /
         static_cast<double>(std::max<std::int64_t>(1, why.available.value));
}

}  // namespace

Answer find_answer(const PlanCommand& command) {
  const auto begin = std::chrono::steady_clock::now();
  Answer answer{.model = load_model(command.model),
                .cluster = load_cluster(command.cluster),
                .search = {},
                .best = {},
                .elapsed = {}};
  answer.global_batch = command.pins.global_batch.value_or(answer.model.global_batch);
  answer.sequence = command.pins.sequence.value_or(answer.model.sequence);
  Progress progress;
  const SearchOptions options{
      .threads = command.threads,
      .exhaustive = command.exhaustive,
      .progress = [&](const SearchStats& stats) { progress.show(progress_line(stats)); }};
  answer.search = search(answer.model, answer.cluster, command.pins,
                         make_evaluator(answer.model, answer.cluster), options);
  if (answer.search.best) {
    Plan plan = answer.search.best->plan;
    keep_paths(plan, command);
    answer.best = examine(plan, answer.model, answer.cluster);
  }
  progress.clear();
  if (command.timing) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    answer.elapsed = Seconds{elapsed.count()};
  }
  return answer;
}

const Infeasible* closest_miss(const SearchResult& search) {
  const Infeasible* closest = nullptr;
  for (const Rejected& rejected : search.rejected) {
    if (!rejected.best.infeasible) continue;
    const Infeasible& why = *rejected.best.infeasible;
    if (closest == nullptr || shortage_ratio(why) < shortage_ratio(*closest)) closest = &why;
  }
  return closest;
}

std::string misfit_line(const Answer& answer) {
  const Infeasible* closest = closest_miss(answer.search);
  return fmt::format(
      "{} does not fit on {}: {}", answer.model.name, answer.cluster.name,
      closest == nullptr ? "no plan of the space does" : "at the least " + shortage(*closest));
}

}  // namespace zplan
