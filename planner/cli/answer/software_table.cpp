// The table of software: the plan as its software runs it, what other software takes, the plan as
// our own executor runs it, and the least time that the hardware could take.
#include <algorithm>
#include <utility>

#include "hwprofiles/quantities.h"
#include "planner/cli/answer/answer.h"
#include "planner/core/error.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/hardware_limit.h"
#include "planner/software/choice.h"

namespace zplan {
namespace {

SoftwareLine predicted(const StackProfile& software, const MeasuredProfile& runs,
                       const TimePrediction& time, const Cluster& cluster) {
  return {.title = software_title(software),
          .profile = software.name,
          .step = time.sim.period,
          .mfu = time.throughput.mfu,
          .interval = time.certainty.interval,
          .basis = measured_words(runs, cluster),
          .runs = measured_words(runs)};
}

// The runs of our own executor are those that its rates were measured with.
MeasuredProfile own_runs(const Evidence& evidence, const Cluster& cluster) {
  const auto runs = runs_for(evidence, cluster.node.device.name);
  const bool on_class = runs && std::ranges::any_of(runs->devices, [&](const std::string& device) {
                          return same_class(device, cluster.node.device.name);
                        });
  return on_class ? MeasuredProfile{runs->runs, 0, "", ""} : MeasuredProfile{};
}

// The same plan with the rates of our own executor; nothing where it never ran on such devices and
// other software did.
std::optional<SoftwareLine> own_line(const Answer& answer, const PlanCommand& command) {
  const StackProfile software = load_stack("own");
  const Evidence evidence = evidence_of(software, load_measured_runs());
  const MeasuredProfile runs = own_runs(evidence, answer.cluster);
  if (runs.runs == 0 && answer.other) return std::nullopt;
  Cluster cluster = varied(load_cluster(command.cluster), command.changes);
  cluster.headroom = answer.cluster.headroom;
  return predicted(software, runs, predict_time(answer.best->planned, cluster, evidence), cluster);
}

std::optional<SoftwareLine> hardware_line(const Answer& answer) {
  const PlannedJob& planned = answer.best->planned;
  const int capability = find_kernel_set(planned.plan.kernel_set).capability;
  const auto profiles = stack_catalogue();
  const auto least = hardware_limit(planned.plan, planned.model, answer.cluster,
                                    fastest_rates(profiles, capability));
  if (!least) return std::nullopt;
  const Throughput at_limit = throughput(planned.job, answer.cluster, *least, model_flops(planned));
  return SoftwareLine{.title = "hardware limit",
                      .profile = {},
                      .step = *least,
                      .mfu = at_limit.mfu,
                      .interval = {},
                      .basis = "a bound",
                      .runs = "a bound"};
}

}  // namespace

SoftwareLine software_line(const Answer& answer) {
  const StackProfile& software = answer.evidence.stack;
  const MeasuredProfile runs =
      is_ideal(software) ? own_runs(evidence_of(software, load_measured_runs()), answer.cluster)
                         : measured_of(software, answer.cluster,
                                       kind_of(answer.best->planned.plan, answer.cluster).format);
  return predicted(software, runs, answer.best->time, answer.cluster);
}

std::vector<SoftwareLine> software_lines(const Answer& answer, const PlanCommand& command) {
  if (!answer.best) return {};
  std::vector<SoftwareLine> lines{software_line(answer)};
  if (answer.other) lines.push_back(*answer.other);
  if (!is_ideal(answer.evidence.stack))
    if (auto own = own_line(answer, command)) lines.push_back(*std::move(own));
  if (auto limit = hardware_line(answer)) lines.push_back(*std::move(limit));
  return lines;
}

}  // namespace zplan
