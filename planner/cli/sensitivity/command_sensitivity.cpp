#include <fmt/format.h>

#include <utility>

#include "planner/cli/commands.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/progress.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/sensitivity/sensitivity.h"

namespace zplan {
namespace {

Sensitivity price(const ChosenPlan& chosen, int threads, bool check) {
  const InterruptGuard guard;
  Progress progress;
  const SensitivityOptions options{
      .threads = threads,
      .check = check,
      .progress =
          [&](std::size_t done, std::size_t all) {
            progress.show(fmt::format("pricing: {} of {} quantities", done, all));
          },
      .stop = [] { return InterruptGuard::interrupted(); }};
  Sensitivity found = find_sensitivity(chosen.planned.job, chosen.cluster, options);
  progress.clear();
  return found;
}

}  // namespace

std::optional<PlanPrices> find_prices(const SensitivityCommand& command) {
  const PlanCommand& question = command.source.question;
  std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return std::nullopt;
  if (chosen->memory.infeasible && !question.ignore_capacity) {
    complain(fmt::format("{} does not fit on {}: {} (--ignore-capacity looks at it anyway)",
                         command.source.plan, chosen->cluster.name,
                         full_reason(*chosen->memory.infeasible)));
    return std::nullopt;
  }
  Sensitivity found = price(*chosen, question.threads, command.check);
  PlanPrices prices{.chosen = *std::move(chosen),
                    .found = std::move(found),
                    .tiers = {},
                    .is_checked = command.check};
  prices.tiers = ask_for_memory(command, prices.chosen, prices.found.step.period);
  return prices;
}

ExitCode execute(const SensitivityCommand& command) {
  const std::optional<PlanPrices> prices = find_prices(command);
  if (!prices) return ExitCode::kInfeasible;
  write_answer(prices_sheet(*prices), command.json);
  return prices->found.is_stopped ? ExitCode::kInterrupted : ExitCode::kOk;
}

}  // namespace zplan
