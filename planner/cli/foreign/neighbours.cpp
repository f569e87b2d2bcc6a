#include <algorithm>

#include "planner/cli/foreign/check.h"
#include "planner/foreign/frameworks/round_trip.h"
#include "planner/plan/plan_difference.h"

namespace zplan {
namespace {

class Neighbours {
 public:
  Neighbours(const Framework& framework, const Plan& plan, const ModelConfig& model,
             const Cluster& cluster)
      : framework_(framework), plan_(plan), model_(model), cluster_(cluster) {}

  std::vector<Plan> find() {
    add_batches(plan_);
    add_recomputation();
    add_stages();
    add_homes();
    add_gathers();
    add_parallelism();
    return std::move(out_);
  }

 private:
  // A plan that there is, that is new, and that the framework does as it is.
  void add(const Plan& plan) {
    if (plan == plan_ || std::ranges::find(out_, plan) != out_.end()) return;
    if (illegal(plan, shape_of(model_))) return;
    const Setup setup = read_back(framework_, plan, model_, cluster_);
    if (plan_difference(plan, setup.plan).empty()) out_.push_back(plan);
  }

  // The global batch stays.
  void add_batches(const Plan& from) {
    const std::int64_t of_replica = from.batch.global_batch / from.parallel.dp;
    const std::int64_t micro = from.batch.micro_batch;
    for (const std::int64_t other : {micro / 2, micro * 2, micro * 4}) {
      if (other < 1 || of_replica % other != 0) continue;
      Plan plan = from;
      plan.batch.micro_batch = other;
      add(plan);
    }
  }

  // With it there is room for more, without it for less.
  void add_recomputation() {
    Plan plan = plan_;
    plan.recompute = {{plan_.all_full() ? Recompute::kNone : Recompute::kFull}};
    plan.placement.activations = Tier::kGpu;
    add(plan);
    add_batches(plan);
  }

  void add_stages() {
    for (std::int32_t stage = 0; stage <= 3; ++stage) {
      Plan plan = plan_;
      plan.zero_stage = stage;
      if (stage == 3 && plan_.zero_stage < 3) plan.overlap.parameters = plan.overlap.gradients;
      if (stage < 3) plan.overlap.parameters = false;
      if (stage < 3) plan.gather = Gather::kOperator;
      plan.placement.grads = stage >= 2 ? plan.placement.optimizer : Tier::kGpu;
      if (stage < 3) plan.placement.params = Tier::kGpu;
      add(plan);
    }
  }

  void add_homes() {
    for (const Tier tier : {Tier::kGpu, Tier::kCpu}) {
      Plan plan = plan_;
      plan.placement.optimizer = tier;
      if (plan.zero_stage >= 2) plan.placement.grads = tier;
      const std::string_view recipe = tier == Tier::kGpu ? "standard" : "main-gradients";
      if (const auto found = find_recipe(recipe, plan.kernel_set)) plan.precision = *found;
      add(plan);
      plan.placement.params = tier;
      add(plan);
    }
    Plan plan = plan_;
    plan.placement.params = Tier::kGpu;
    add(plan);
  }

  void add_gathers() {
    for (const Gather& gather : {Gather::kLayer, Gather::kOperator}) {
      for (const std::int32_t ahead : {0, 1, 2, 4}) {
        Plan plan = plan_;
        plan.gather = gather;
        plan.prefetch = ahead;
        if (plan_.zero_stage == 3) add(plan);
      }
    }
    Plan plan = plan_;
    plan.overlap.gradients = true;
    plan.overlap.parameters = plan.zero_stage == 3;
    plan.prefetch = std::max(plan.prefetch, 1);
    add(plan);
  }

  // Half or twice as many tensor parallel ranks, within a node, and pipeline stages; none of both.
  void add_parallelism() {
    const Parallel& p = plan_.parallel;
    for (const std::int32_t tp : {p.tp / 2, p.tp, p.tp * 2})
      for (const std::int32_t pp : {p.pp / 2, p.pp, p.pp * 2}) add_shape(tp, pp);
    add_shape(1, 1);
  }

  void add_shape(std::int32_t tp, std::int32_t pp) {
    const Parallel& p = plan_.parallel;
    const std::int32_t ranks = p.dp * p.tp * p.pp;
    if (tp < 1 || pp < 1 || tp > cluster_.node.devices_per_node || ranks % (tp * pp) != 0) return;
    Plan plan = plan_;
    plan.parallel.tp = tp;
    plan.parallel.pp = pp;
    plan.parallel.dp = ranks / (tp * pp);
    if (tp == 1) plan.parallel.sequence_parallel = false;
    if (pp != p.pp) plan.stage_layers.clear();
    if (pp == 1) plan.schedule = Schedule::kOneForwardOneBackward;
    if (pp == 1) plan.parallel.chunks = Parallel{}.chunks;
    if (pp == 1) plan.parallel.flushes = Parallel{}.flushes;
    add(plan);
  }

  const Framework& framework_;
  const Plan& plan_;
  const ModelConfig& model_;
  const Cluster& cluster_;
  std::vector<Plan> out_;
};

}  // namespace

std::vector<Plan> neighbours_of(const Framework& framework, const Plan& plan,
                                const ModelConfig& model, const Cluster& cluster) {
  return Neighbours(framework, plan, model, cluster).find();
}

}  // namespace zplan
