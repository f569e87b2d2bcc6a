// The table of softwares: the plan as its software runs it, as our own executor does, and the least
// time that the hardware could take.
#include <utility>

#include "hwprofiles/quantities.h"
#include "planner/cli/answer/answer.h"
#include "planner/core/error.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/hardware_limit.h"
#include "planner/software/choice.h"

namespace zplan {
namespace {

class Lines {
 public:
  Lines(const Answer& answer, const PlanCommand& command) : answer_(answer), command_(command) {}

  std::vector<SoftwareLine> all() {
    const StackProfile& software = answer_.evidence.stack;
    std::vector<SoftwareLine> lines{predicted(software, answer_.best->time, answer_.cluster)};
    if (!is_ideal(software)) lines.push_back(own());
    if (auto limit = hardware()) lines.push_back(*std::move(limit));
    return lines;
  }

 private:
  const PlannedJob& planned() const { return answer_.best->planned; }

  SoftwareLine predicted(const StackProfile& software, const TimePrediction& time,
                         const Cluster& cluster) const {
    return {.title = software_title(software),
            .profile = software.name,
            .step = time.sim.period,
            .mfu = time.throughput.mfu,
            .interval = time.certainty.interval,
            .basis = basis(software, cluster)};
  }

  static std::string basis(const StackProfile& software, const Cluster& cluster) {
    if (!is_ideal(software)) return measured_words(measured_of(software, cluster), cluster);
    const auto runs =
        runs_for(evidence_of(software, load_measured_runs()), cluster.node.device.name);
    MeasuredSoftware own;
    own.profile = software;
    if (runs)
      for (const std::string& device : runs->devices)
        if (same_class(device, cluster.node.device.name)) own.on_class = true;
    own.runs = own.on_class ? runs->runs : 0;
    return measured_words(own, cluster);
  }

  // The same plan with the rates of our own executor.
  SoftwareLine own() const {
    Cluster cluster = varied(load_cluster(command_.cluster), command_.changes);
    cluster.headroom = answer_.cluster.headroom;
    const StackProfile software = load_stack("own");
    const Evidence evidence = evidence_of(software, load_measured_runs());
    return predicted(software, predict_time(planned(), cluster, evidence), cluster);
  }

  std::optional<SoftwareLine> hardware() const {
    const Cluster& cluster = answer_.cluster;
    const int capability = find_kernel_set(planned().plan.kernel_set).capability;
    const auto profiles = stack_catalogue();
    const auto least = hardware_limit(planned().plan, planned().model, cluster,
                                      fastest_rates(profiles, capability));
    if (!least) return std::nullopt;
    const Throughput at_limit = throughput(planned().job, cluster, *least, model_flops(planned()));
    return SoftwareLine{.title = "hardware limit",
                        .profile = {},
                        .step = *least,
                        .mfu = at_limit.mfu,
                        .interval = {},
                        .basis = "a bound"};
  }

  const Answer& answer_;
  const PlanCommand& command_;
};

}  // namespace

std::vector<SoftwareLine> software_lines(const Answer& answer, const PlanCommand& command) {
  if (!answer.best) return {};
  return Lines(answer, command).all();
}

}  // namespace zplan
