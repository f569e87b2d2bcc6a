// Search's questions answered by the rest of the program: lower, place, cost, sim.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "planner/cost/bounds.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/shared_wires.h"
#include "planner/lower/lower.h"
#include "planner/lower/ranks.h"
#include "planner/place/place.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/job/limits.h"
#include "planner/search/bounded_stages.h"
#include "planner/search/bytes_bound.h"
#include "planner/search/homes/homes.h"
#include "planner/search/job_bound.h"
#include "planner/search/memory_use.h"
#include "planner/search/search.h"
#include "planner/search/shared_work.h"
#include "planner/search/stack_memory_use.h"
#include "planner/search/time_floor.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

// What takes as long as so many operations of a simulation, 0.25 us each, by node of the Job.
// [assumed] as measured over eight questions of the catalogue on one core, by node: 0.6 us to lower
// it, as much to find what it costs, 1.5 us to place it, 2.5 to 5.5 us to find its edges and walk
// it, 4.5 to 7.5 us for all that comes before a simulation.
constexpr std::int64_t kLowering = 2, kPricing = 3, kPlacing = 6, kWalking = 12, kPreparing = 24;

class PlanEvaluator {
 public:
  PlanEvaluator(const ModelConfig& model, const Cluster& cluster, KeepSimulation keep)
      : model_(model),
        cluster_(cluster),
        keep_(std::move(keep)),
        wires_(cluster_),
        floors_(model_, cluster_, &wires_),
        bytes_(model_) {}

  Estimate estimate(const Plan& plan) {
    Estimate result;
    const StagePieces& stages = in_flight(plan);
    const std::vector<TierBytes> bound = bytes_.of(plan, stages);
    result.infeasible = worst_tier(memory_use(bound, fills(plan), cluster_));
    if (!result.infeasible) result.bound = floors_.of(plan, stages);
    return result;
  }

  Seconds bound(const Plan& plan) {
    Job job = lowered(plan);
    return bound(plan, job).bound();
  }

  Seconds bound_of_depths(const Plan& deepest) {
    const Seconds moved = traffic(deepest);
    if (moved >= floors_.of(deepest, in_flight(deepest)) * kFarAbove) return moved;
    Job job = lowered_in_part(deepest);
    return bound(deepest, job).bound_of_depths(deepest);
  }

  // Returns what parameters and gradients take between ranks and between tiers.
  Seconds traffic(const Plan& plan) {
    const std::optional<Plan> on_gpu = all_on_gpu(plan, model_);
    Seconds most = on_gpu ? exchanged(*on_gpu) : Seconds{};
    for (const Plan& bare : with_bare_copies(plan))
      most = std::max(most, remembered(copied_, bare, copies_work));
    return most;
  }

  Seconds shared_work(const Plan& plan) {
    const std::optional<Plan> on_gpu = all_on_gpu(plan, model_);
    if (!on_gpu) return {};
    const StagePieces& stages = in_flight(*on_gpu);
    // Many plans share their traffic, which often is all that is needed of them.
    const Seconds states = exchanged(*on_gpu);
    if (states >= floors_.of(*on_gpu, stages) * kFarAbove) return states;
    Job job = lowered_in_part(*on_gpu);
    const Seconds shared = zplan::shared_work(*on_gpu, job, cluster_, floors_, stages, &wires_);
    count_bound(job, true);
    return std::max(states, shared);
  }

  Bytes least_gpu(const Plan& plan) {
    Bytes least{0};
    for (const TierBytes& stage : bytes_.of(plan, in_flight(plan)))
      least = std::max(least, stage[static_cast<std::size_t>(Tier::kGpu)]);
    return least;
  }

  // Where the plan's slack does not fit, the tightest placement decides.
  Fit fit(const Plan& plan) {
    Job job = lowered(plan);
    operations_ += kPlacing * nodes_of(job);
    const JobLifetimes lives = lifetimes(job);
    Fit result{.infeasible = check_fit(job, lives, cluster_),  // by live peaks, below any slab
               .slack = plan.slack,
               .prefetch = plan.prefetch,
               .gather = plan.gather};
    if (result.infeasible) {
      result.slack = 0;
      return result;
    }
    assign_offsets(job, lives, plan.slack);
    result.infeasible = check_fit(job, lives, cluster_);
    if (result.infeasible && plan.slack > 0) {
      assign_offsets(job, lives, 0);
      result.slack = 0;
      result.infeasible = check_fit(job, lives, cluster_);
    }
    for (const RankClass& c : job.classes)
      result.gpu = std::max(result.gpu, c.placement.slab[static_cast<std::size_t>(Tier::kGpu)]);
    if (!result.infeasible && cluster_.memory.given)
      result.infeasible = check_stack(stack_memory_use(job, cluster_), cluster_);
    if (!result.infeasible) result.bound = bound(plan, job).bound();
    return result;
  }

  std::vector<Plan> homes(const Plan& plan, const Pins& pins) {
    return promising_homes(
        plan, model_, cluster_, pins, [this](const Plan& p) { return fit(p); }, &wires_);
  }

  Seconds simulate(const Plan& plan, double tolerance) {
    Job job = lower(plan, model_);
    place(job, {.slack = plan.slack});
    const sim::SimResult result = sim::simulate(
        CostModel(job, cluster_, &wires_),
        {.find_reliances = keep_ != nullptr, .tolerance = tolerance, .fingerprint = {}});
    operations_ += kPreparing * nodes_of(job) + result.ops - result.skipped_ops;
    if (keep_) keep_(plan, result);
    return result.period;
  }

  std::int64_t operations() const { return operations_; }

 private:
  JobBound bound(const Plan& plan, Job& job) {
    JobBound found =
        bound_of_job(plan, job, cluster_, floors_, in_flight(plan), {.wires = &wires_});
    count_bound(job, !found.is_far_above());
    return found;
  }

  Seconds exchanged(const Plan& on_gpu) {
    return remembered(exchanged_, with_bare_traffic(on_gpu), traffic_work);
  }

  using Works = std::map<std::string, Seconds>;  // by the plan that stands for the others
  using WorkOf = Seconds (*)(const Job&, const Cluster&, SharedWires*);
  Seconds remembered(Works& works, const Plan& bare, WorkOf work_of) {
    const std::string key = to_json(bare);
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = works.find(key); at != works.end()) return at->second;
    }
    Seconds found{};
    std::int64_t spent = 0;
    if (!illegal(bare, shape_of(model_))) {
      const Job job = of_bounded_stages(bare);
      found = work_of(job, cluster_, &wires_);
      spent = (kLowering + kPricing) * nodes_of(job);
    }
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = works.emplace(key, found);
    if (is_new) operations_ += spent;  // once, whichever threads come to it together
    return at->second;
  }

  Job lowered(const Plan& plan) {
    Job job = lower_unordered(plan, model_);
    operations_ += kLowering * nodes_of(job);
    return job;
  }

  // Lowers the stages that a bound of its time looks at.
  Job lowered_in_part(const Plan& plan) {
    Job job = of_bounded_stages(plan);
    operations_ += kLowering * nodes_of(job);
    return job;
  }
  Job of_bounded_stages(const Plan& plan) {
    return lower_unordered(plan, model_,
                           bounded_stages(plan, model_, in_flight(plan), fills(plan)));
  }

  static std::int64_t nodes_of(const Job& job) {
    std::int64_t nodes = 0;
    for (const RankClass& c : job.classes) nodes += std::ssize(c.program.nodes);
    return nodes;
  }

  // Where it is walked two stages of it are.
  void count_bound(const Job& job, bool is_walked) {
    const std::int64_t nodes = nodes_of(job);
    const std::int64_t stages = std::ranges::count_if(
        job.classes, [](const RankClass& c) { return !c.program.nodes.empty(); });
    operations_ += kPricing * nodes;
    if (is_walked) operations_ += kWalking * nodes * std::min<std::int64_t>(2, stages) / stages;
  }

  // Remembered: the same for all plans of a shape.
  const std::vector<NodeFill>& fills(const Plan& plan) {
    const Parallel& shape = plan.parallel;
    const std::lock_guard lock(mutex_);
    std::vector<NodeFill>& known =
        fills_[{plan.replicas(), shape.tp, shape.pp, plan.order, plan.gpus.size()}];
    if (known.empty()) known = node_fills(mesh_of(plan), cluster_);
    return known;
  }

  // Remembered, too: counting takes a while with many micro-batches.
  const StagePieces& in_flight(const Plan& plan) {
    const std::lock_guard lock(mutex_);
    StagePieces& known = in_flight_[{plan.schedule, plan.parallel.pp, plan.pieces(),
                                     plan.parallel.flushes, plan.micro_steps()}];
    if (known.empty()) known = in_flight_of_stages(plan);
    return known;
  }

  const ModelConfig model_;
  const Cluster cluster_;
  const KeepSimulation keep_;
  SharedWires wires_;
  TimeFloors floors_;
  BytesBounds bytes_;
  std::atomic<std::int64_t> operations_ = 0;
  std::mutex mutex_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, RankOrder, std::size_t>,
           std::vector<NodeFill>>
      fills_;
  std::map<std::tuple<Schedule, std::int32_t, std::int32_t, std::int32_t, std::int64_t>,
           StagePieces>
      in_flight_;
  Works exchanged_, copied_;
};

}  // namespace

Evaluator make_evaluator(const ModelConfig& model, const Cluster& cluster, KeepSimulation keep) {
  const auto self = std::make_shared<PlanEvaluator>(model, cluster, std::move(keep));
  return {
      .estimate = [self](const Plan& plan) { return self->estimate(plan); },
      .fit = [self](const Plan& plan) { return self->fit(plan); },
      .simulate = [self](const Plan& plan) { return self->simulate(plan, kSimulationTolerance); },
      .simulate_exactly = [self](const Plan& plan) { return self->simulate(plan, 0); },
      .bound = [self](const Plan& plan) { return self->bound(plan); },
      .bound_of_depths = [self](const Plan& plan) { return self->bound_of_depths(plan); },
      .traffic = [self](const Plan& plan) { return self->traffic(plan); },
      .operations = [self] { return self->operations(); },
      .least_gpu = [self](const Plan& plan) { return self->least_gpu(plan); },
      .homes = [self](const Plan& plan, const Pins& pins) { return self->homes(plan, pins); },
      .shared_work = [self](const Plan& plan) { return self->shared_work(plan); }};
}

}  // namespace zplan
