#include "planner/search/hardware_limit.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/kernel_time.h"
#include "planner/cost/step_totals.h"
#include "planner/lower/lower.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

constexpr std::array kSequences{1, 4, 16};  // at a time

// The work of one rank that trains `sequences` sequences by itself.
Plan on_one_rank(const Plan& plan, const std::string& kernel_set, std::int64_t sequences) {
  Plan alone;
  alone.model = plan.model;
  alone.hardware = plan.hardware;
  alone.kernel_set = kernel_set;
  alone.precision = default_recipe(kernel_set);
  alone.low_precision = plan.low_precision;
  alone.train = plan.train;
  alone.optimizer = plan.optimizer;
  alone.loss_scaling = plan.loss_scaling;
  alone.capacity_factor = plan.capacity_factor;
  alone.clip = false;
  alone.batch = {
      .global_batch = sequences, .micro_batch = sequences, .sequence = plan.batch.sequence};
  return alone;
}

// Work of a kind, per sequence.
enum class Work : std::uint8_t { kProducts, kForwardAttention, kBackwardAttention };

// What work there is and the best rate that some of it reaches, by kind and format.
struct WorkAndRate {
  double flop = 0;  // of one sequence
  double best = 0;  // flop/s
};

class Limit {
 public:
  Limit(const Cluster& cluster, const StackRates& fastest)
      : device_(cluster.node.device), fastest_(fastest) {}

  void add(const Job& job, std::int64_t sequences) {
    const Program& program = job.classes.front().program;
    const KernelSet* const kernels = built_in_kernels(job);
    const std::vector<std::int64_t> instances = instances_per_step(program);
    std::map<Key, double> flop;
    double bytes = 0;
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& node = program.nodes[i];
      if (node.kind != OpKind::kKernel || node.lane != Lane::kCompute) continue;
      const Demand demand = demand_of(program, node);
      const double runs = static_cast<double>(instances[i]) / static_cast<double>(sequences);
      if (kernel_def(node.kernel).traffic == Traffic::kOptimizer) continue;
      if (multiplies(demand.kind))
        flop[add_rate(node.kernel, demand, format_of(program, node, kernels))] +=
            static_cast<double>(demand.flops.value) * runs;
      else
        bytes += static_cast<double>(demand.bytes.value) * share_of(node.kernel) * runs;
    }
    for (const auto& [key, sum] : flop) {
      WorkAndRate& of = work_[key];
      of.flop = of.flop == 0 ? sum : std::min(of.flop, sum);
    }
    bytes_ = bytes_ < 0 ? bytes : std::min(bytes_, bytes);
  }

  // Of one sequence on one device.
  Seconds time() const {
    Seconds sum = stream_time({static_cast<std::int64_t>(std::max(0.0, bytes_))}, device_).time;
    for (const auto& [key, work] : work_) sum += Seconds{work.flop / work.best};
    return sum;
  }

 private:
  using Key = std::pair<Work, std::string>;

  Key add_rate(KernelId kernel, const Demand& demand, std::string_view format) {
    const Work kind = demand.kind == WorkKind::kGemm ? Work::kProducts
                      : demand.attention.backward    ? Work::kBackwardAttention
                                                     : Work::kForwardAttention;
    Key key{kind, std::string(format)};
    const Seconds time = kernel_time(kernel, demand, format, device_, fastest_).time;
    if (time.value > 0) {
      double& best = work_[key].best;
      best = std::max(best, static_cast<double>(demand.flops.value) / time.value);
    }
    return key;
  }

  double share_of(KernelId kernel) const {
    switch (kernel_def(kernel).traffic) {
      case Traffic::kElementwise:
        return fastest_.elementwise;
      case Traffic::kSoftmax:
        return fastest_.softmax;
      case Traffic::kLoss:
        return fastest_.loss;
      case Traffic::kOptimizer:
      case Traffic::kCompulsory:
        return 1;
    }
    return 1;
  }

  const DeviceProfile& device_;
  const StackRates& fastest_;
  std::map<Key, WorkAndRate> work_;
  double bytes_ = -1;
};

std::optional<Seconds> limit_of_set(const Plan& plan, const ModelConfig& model,
                                    const Cluster& cluster, const StackRates& fastest,
                                    const std::string& kernel_set) {
  Limit limit(cluster, fastest);
  for (const std::int64_t sequences : kSequences) {
    Plan alone = on_one_rank(plan, kernel_set, sequences);
    if (model.experts) alone.expert_imbalance = 1;
    if (illegal(alone, shape_of(model))) return std::nullopt;
    limit.add(lower(alone, model), sequences);
  }
  const auto devices = static_cast<double>(cluster.devices());
  return limit.time() * (static_cast<double>(plan.batch.global_batch) / devices) * fastest.overall;
}

}  // namespace

StackRates fastest_rates(std::span<const StackProfile> profiles, int capability) {
  StackRates fastest;
  for (const StackProfile& profile : profiles) {
    const StackRates rates = profile.rates_on(capability);
    for (const StackRate& rate : stack_rates())
      if (!rate.seconds) fastest.*rate.member = std::min(fastest.*rate.member, rates.*rate.member);
  }
  return fastest;
}

std::optional<Seconds> hardware_limit(const Plan& plan, const ModelConfig& model,
                                      const Cluster& cluster, const StackRates& fastest) {
  auto least = limit_of_set(plan, model, cluster, fastest, plan.kernel_set);
  const KernelSet* const other = other_attention(find_kernel_set(plan.kernel_set));
  if (other != nullptr)
    if (const auto time = limit_of_set(plan, model, cluster, fastest, std::string(other->id)))
      least = least ? std::min(*least, *time) : *time;
  return least;
}

}  // namespace zplan
