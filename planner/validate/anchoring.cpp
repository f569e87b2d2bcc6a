#include "planner/validate/anchoring.h"

#include <fmt/format.h>

#include <cmath>

#include "models/model_formulas.h"
#include "planner/certainty/certainty.h"
#include "planner/core/error.h"
#include "planner/cost/throughput.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/validate/record_plan.h"
#include "sim/simulate.h"

namespace zplan {

Anchoring anchor_on(const Job& job, const Cluster& cluster, Seconds measured,
                    const Knowledge& prior) {
  constexpr int kMoves = 3;  // [derived] the third changes less than what is left to know
  Cluster moving = cluster;
  Anchoring result;
  std::vector<double> moved(prior.mean.size());  // logarithms, since the prior
  for (int move = 0; move <= kMoves; ++move) {
    const bool last = move == kMoves;
    sim::SimResult found = sim::simulate(job, moving, {.find_reliances = true, .fingerprint = {}});
    if (move == 0) result.before = {found.period, found.reliances};
    result.after = {found.period, found.reliances};
    if (last) break;
    AnchorRun run{std::log(measured.value / found.period.value), std::move(found.reliances)};
    for (std::size_t k = 0; k < moved.size(); ++k) run.log_error += run.reliances[k] * moved[k];
    result.knowledge = anchored(prior, run);
    moved = result.knowledge.mean;
    moving.stack = cluster.stack;
    result.moved = move_rates(result.knowledge, moving.stack);
  }
  result.rates = moving.stack;
  return result;
}

std::vector<RunRecord> read_anchors(const std::string& path) {
  RunFile file = read_runs(path);
  if (!file.malformed.empty()) throw_bad_input(file.malformed.front());
  if (file.runs.empty())
    throw_bad_input(fmt::format("{}: expected a measured run (zplan.runs/2), got none", path));
  for (const RunRecord& run : file.runs) {
    if (run.measured.step_time_s) continue;
    throw_bad_input(
        fmt::format("{}:{}: /measured/step_time_s: expected a time, got null", path, run.line));
  }
  return std::move(file.runs);
}

Anchor learn_from(Evidence& evidence, const MeasuredJob& measured_job, const std::string& run,
                  Seconds measured, const MeasuredRuns& published) {
  const Cluster& cluster = measured_job.cluster;
  const Kind& kind = measured_job.kind;
  const auto interval = [&](const AnchorStep& step) {
    const double mfu =
        throughput(measured_job.job, cluster, step.period, measured_job.model_flops).mfu;
    return certainty_of({step.period, mfu, step.reliances}, evidence, published, cluster.node, kind)
        .interval;
  };
  Anchoring found =
      anchor_on(measured_job.job, cluster, measured, knowledge_of(evidence, cluster.node, kind));
  Anchor anchor{.run = run,
                .moved = std::move(found.moved),
                .measured = measured,
                .before = found.before.period,
                .after = found.after.period,
                .interval_before = interval(found.before)};
  learn(evidence, found.knowledge, found.rates, kind);
  anchor.interval_after = interval(found.after);
  return anchor;
}

Anchor add_anchor(Evidence& evidence, const RunRecord& run, const RunCatalogues& catalogues) {
  const PlannedRun planned = plan_run(run, catalogues, &evidence.stack);
  if (!planned.unsupported.empty())
    throw_bad_input(fmt::format("run {}: no plan expresses it: {}", run.id, planned.unsupported));
  Job job = lower(planned.plan, planned.model);
  place(job, {.slack = planned.plan.slack});
  const MeasuredJob measured{
      .job = job,
      .cluster = planned.cluster,
      .kind = kind_of(planned.plan, planned.cluster),
      .model_flops = model_flops_per_step(planned.model, planned.plan.batch.global_batch)};
  return learn_from(evidence, measured, run.id, Seconds{run.measured.step_time_s.value()},
                    catalogues.measured);
}

}  // namespace zplan
