#include "planner/search/questions/largest_model.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/core/error.h"
#include "planner/search/knobs.h"
#include "planner/search/leaf.h"
#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

constexpr std::size_t kWave = 8;  // plans placed together

// Those that cut the model into more parts first, with more of it sharded: they need least.
bool needs_less(const Plan& a, const Plan& b) {
  const auto parts = [](const Plan& plan) {
    return std::tuple(plan.parallel.tp * plan.parallel.pp, plan.partition_activations,
                      plan.parallel.sequence_parallel, plan.gather == Gather::kOperator);
  };
  return parts(a) > parts(b);
}

std::vector<Leaf> leaves_of(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  std::vector<Plan> plans = enumerate(model, cluster, pins);
  std::stable_sort(plans.begin(), plans.end(), needs_less);
  std::vector<Leaf> leaves(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) leaves[i].candidate.plan = std::move(plans[i]);
  return leaves;
}

// Where a plan is refused, by how much.
void remember_misfit(Fitting& found, const Leaf& leaf) {
  const Infeasible& misfit = *leaf.candidate.infeasible;
  if (!found.misfit || misfit.overload() < found.misfit->overload()) found.misfit = misfit;
}

class Ladder {
 public:
  Ladder(const SizeFamily& family, const std::vector<LadderStep>& steps, const Cluster& cluster,
         const Pins& given, const SizingOptions& options)
      : steps_(steps), cluster_(cluster), pins_(pins_of(family, given)), options_(options) {
    if (!pins_.has("/batch/global_batch"))
      pins_.set("/batch/global_batch", pins_.ranks > 0 ? pins_.ranks : cluster.devices());
  }

  LargestModel climb() {
    // The first `good` steps fit; that of index `bad` and those above do not.
    std::size_t good = 0, bad = steps_.size();
    while (good < bad && !found_.interrupted && found_.refused.empty()) {
      // The first step is cheap, and says whether the family has plans here at all.
      const std::size_t middle = found_.steps == 0 ? 0 : good + (bad - good) / 2;
      if (fits(middle)) {
        good = middle + 1;
      } else {
        bad = middle;
      }
      found_.interrupted = good < bad && options_.interrupted && options_.interrupted();
      if (options_.progress) options_.progress(found_);
    }
    return std::move(found_);
  }

 private:
  bool fits(std::size_t step) {
    ++found_.steps;
    ModelConfig model = model_of(steps_[step]);
    Fitting fitting;
    try {
      fitting = fitting_plan(model, cluster_, pins_, options_.threads);
    } catch (const Error& error) {  // no plan of the family is legal here
      if (error.code() != ExitCode::kBadInput || found_.steps > 1) throw;
      found_.refused = error.what();
      return false;
    }
    const bool fits = fitting.plan.has_value();
    if (fits) {
      found_.model = std::move(model);
      found_.plan = std::move(fitting.plan);
    } else {
      found_.next = std::move(model);
      found_.misfit = std::move(fitting.misfit);
    }
    return fits;
  }

  const std::vector<LadderStep>& steps_;
  const Cluster& cluster_;
  Pins pins_;
  const SizingOptions& options_;
  LargestModel found_;
};

}  // namespace

Fitting fitting_plan(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                     int threads) {
  const Evaluator evaluator = with_free_knobs(make_evaluator(model, cluster), model, pins);
  std::vector<Leaf> leaves = leaves_of(model, cluster, pins);
  WorkerPool pool(threads);
  pool.for_each(leaves.size(), [&](std::size_t i) { estimate(leaves[i], evaluator); });
  Fitting found;
  for (const Leaf& leaf : leaves)
    if (leaf.out()) remember_misfit(found, leaf);
  std::erase_if(leaves, [](const Leaf& leaf) { return leaf.out(); });
  for (std::size_t begin = 0; begin < leaves.size() && !found.plan; begin += kWave) {
    const std::size_t n = std::min(kWave, leaves.size() - begin);
    pool.for_each(n, [&](std::size_t i) { fit(leaves[begin + i], evaluator); });
    for (std::size_t i = begin; i < begin + n && !found.plan; ++i) {
      if (leaves[i].out()) {
        remember_misfit(found, leaves[i]);
      } else {
        found.plan = std::move(leaves[i].candidate.plan);
      }
    }
  }
  return found;
}

LargestModel largest_model(const SizeFamily& family, const std::vector<LadderStep>& ladder,
                           const Cluster& cluster, const Pins& given,
                           const SizingOptions& options) {
  return Ladder(family, ladder, cluster, given, options).climb();
}

}  // namespace zplan
