#include "planner/cli/questions/sweep_rows.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

SweepPlan plan_of(const Answer& answer) {
  const FoundPlan& best = *answer.best;
  const Throughput& throughput = best.time.throughput;
  return {.plan = best.planned.plan,
          .fingerprint = best.planned.fingerprint,
          .step = best.time.sim.period,
          .interval = best.time.certainty.interval,
          .tokens_per_second = throughput.tokens_per_second,
          .mfu = throughput.mfu,
          .gap = answer.search.stats.gap,
          .devices = answer.cluster.devices(),
          .gpu_memory = best.memory.use[static_cast<std::size_t>(Tier::kGpu)].peak,
          .limited_by = best.time.sim.limited_by};
}

SweepRow answered(const PlanCommand& question) {
  try {
    const Answer answer = find_answer(question);
    if (fits(answer)) return {RowState::kFits, "", "", plan_of(answer)};
    if (InterruptGuard::interrupted()) return {RowState::kStopped, "", "", {}};
    const auto& closest = answer.search.closest;
    return {RowState::kDoesNotFit,
            misfit_line(answer),
            closest ? shortage(*closest->infeasible) : "",
            {}};
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return {RowState::kIllegal, error.what(), error.what(), {}};
  }
}

// What is wrong with a name is wrong with every question.
void check_names(const SweepCommand& command) {
  std::set<std::string> seen;
  for (const SweepCommand::Question& question : command.questions) {
    if (seen.insert("model " + question.command.model).second) load_model(question.command.model);
    if (seen.insert("cluster " + question.command.cluster).second)
      load_cluster(question.command.cluster);
  }
}

void tell(const SweepCommand& command, std::size_t i, const SweepRow& row) {
  const std::string what = row.found
                               ? fmt::format("{} a step", format_seconds(row.found->step))
                               : fmt::format("{}{}{}", name(row.state),
                                             row.reason_word.empty() ? "" : ": ", row.reason_word);
  fmt::print(stderr, "zplan: sweeping: {} of {}: {}: {}\n", i + 1, command.questions.size(),
             point_words(command.axes, command.questions[i].at), what);
  std::fflush(stderr);
}

}  // namespace

std::string_view name(RowState state) {
  constexpr std::string_view kNames[] = {"fits", "does not fit", "not legal", "stopped", "not run"};
  return kNames[static_cast<std::size_t>(state)];
}

std::vector<SweepRow> sweep(const SweepCommand& command) {
  check_names(command);
  std::vector<SweepRow> rows(command.questions.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const InterruptGuard guard;  // of each question, which may have had its own
    rows[i] = answered(command.questions[i].command);
    tell(command, i, rows[i]);
    if (InterruptGuard::interrupted()) break;
  }
  return rows;
}

}  // namespace zplan
