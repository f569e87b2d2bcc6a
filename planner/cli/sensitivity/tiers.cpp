#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/sensitivity/sensitivity.h"

namespace zplan {
namespace {

struct TierQuantity {
  std::string_view name;
  Tier tier;
};
constexpr TierQuantity kTiers[] = {
    {"gpu.memory", Tier::kGpu}, {"cpu.memory", Tier::kCpu}, {"nvme.capacity", Tier::kNvme}};

// More of what is nearly empty changes nothing that a plan would want.
constexpr double kWellFilled = 0.5;
// From here on the whole search is asked, before only a short one.
constexpr double kNearlyFull = 0.9;
constexpr std::int64_t kShortSearch = 8;  // simulations

void ask(const PlanCommand& question, const std::string& software, const TierQuantity& tier,
         Seconds step, TierQuestion& out) {
  PlanCommand with_more = question;
  if (with_more.stack.empty()) with_more.stack = software;
  if (out.is_short) with_more.simulations = question.simulations.value_or(kShortSearch);
  const HardwareQuantity& quantity = find_quantity(tier.name);
  std::erase_if(with_more.changes, [&](const std::string& change) {
    return parse_change(change).quantity == &quantity;
  });
  Cluster cluster = load_cluster(question.cluster);
  cluster = varied(std::move(cluster), question.changes);
  with_more.changes.push_back(
      fmt::format("{}={:.0f} B", tier.name, *quantity.get(cluster) * kMoreMemory));
  const InterruptGuard guard;
  const Answer answer = find_answer(with_more);
  if (InterruptGuard::interrupted()) return;
  out.is_asked = true;
  if (!fits(answer) || !(answer.best->time.sim.period < step)) return;
  const Bytes needed = answer.best->memory.use[static_cast<std::size_t>(tier.tier)].peak;
  if (needed <= out.use.available()) return;  // possible as it is, and not chosen
  out.step = answer.best->time.sim.period;
  out.missing = needed - out.use.available();
}

}  // namespace

std::vector<TierQuestion> ask_for_memory(const SensitivityCommand& command,
                                         const ChosenPlan& chosen, Seconds step) {
  std::vector<TierQuestion> tiers;
  for (const TierQuantity& tier : kTiers) {
    TierQuestion row;
    row.quantity = tier.name;
    row.use = chosen.memory.use[static_cast<std::size_t>(tier.tier)];
    if (row.use.capacity.value == 0) continue;
    const double filled = static_cast<double>(row.use.peak.value) /
                          static_cast<double>(std::max<std::int64_t>(1, row.use.available().value));
    const bool asks = command.source.plan.empty() && filled >= kWellFilled;
    row.is_short = asks && filled < kNearlyFull;
    if (asks && !InterruptGuard::interrupted())
      ask(command.source.question, chosen.evidence.stack.name, tier, step, row);
    tiers.push_back(row);
  }
  return tiers;
}

}  // namespace zplan
