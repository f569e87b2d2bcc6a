// Which plans there are: all combinations of the free choices, those without a Job left out.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "planner/core/error.h"
#include "planner/plan/limits.h"
#include "planner/program/kernel_set.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

constexpr std::int32_t kMostStages = 2;  // of an unpinned pipeline

template <typename T>
std::vector<T> choices(const std::optional<T>& pin, std::vector<T> all) {
  if (pin) return {*pin};
  return all;
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> small, large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d * d != n) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

void require_positive(const char* what, const auto& pin) {
  if (pin && *pin < 1) throw_bad_input(fmt::format("{} must be at least 1, not {}", what, *pin));
}

void require_sane(const Batch& batch) {
  if (batch.global_batch < 1 || batch.global_batch > kMaxGlobalBatch)
    throw_bad_input(
        fmt::format("global batch {} is outside 1..{}", batch.global_batch, kMaxGlobalBatch));
  if (batch.sequence < 1 || batch.sequence > kMaxSequence)
    throw_bad_input(fmt::format("sequence {} is outside 1..{}", batch.sequence, kMaxSequence));
  if (batch.global_batch * batch.sequence > kMaxTokensPerStep)
    throw_bad_input(fmt::format("global batch {} x sequence {} exceeds {} tokens per step",
                                batch.global_batch, batch.sequence, kMaxTokensPerStep));
}

// Numbers of stages to try, and of replicas for each: all devices, or what is pinned.
std::vector<Parallel> shapes(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  const std::int64_t devices = cluster.devices();
  std::vector<Parallel> result;
  for (std::int32_t pp = pins.pp.value_or(1); pp <= pins.pp.value_or(kMostStages); ++pp) {
    const bool fits = pp <= devices && (!pins.dp || *pins.dp <= devices / pp);
    const bool uses_all = pins.dp || pins.pp || devices % pp == 0;
    if (!pins.pp && (!fits || !uses_all || pp > model.layers)) continue;
    const auto dp = static_cast<std::int32_t>(std::max<std::int64_t>(1, devices / pp));
    if (!fits)
      throw_bad_input(fmt::format("dp {} x pp {} needs more than the {} devices of {}; {}",
                                  pins.dp.value_or(1), pp, devices, cluster.name,
                                  pp <= devices ? fmt::format("dp {} is possible", dp)
                                                : fmt::format("pp {} is possible", devices)));
    result.push_back({.dp = pins.dp.value_or(dp), .pp = pp});
  }
  if (result.empty())
    throw_bad_input(fmt::format("dp {} needs more than the {} devices of {}; dp {} is possible",
                                *pins.dp, devices, cluster.name, devices));
  return result;
}

[[noreturn]] void batch_fits_nowhere(const std::vector<Parallel>& shapes,
                                     std::int64_t global_batch) {
  std::vector<std::string> sizes;
  std::int64_t nearest = 0;
  for (const Parallel& shape : shapes) {
    sizes.push_back(fmt::format("dp {} (pp {})", shape.dp, shape.pp));
    const std::int64_t here = nearest_multiple(global_batch, shape.dp);
    if (nearest == 0 || std::abs(here - global_batch) < std::abs(nearest - global_batch))
      nearest = here;
  }
  throw_bad_input(fmt::format("global batch {} is no multiple of {}; the nearest that is: {}",
                              global_batch, fmt::join(sizes, " or "), nearest));
}

// The combinations below one shape and micro-batch. Remembers why the first illegal one is.
class Leaves {
 public:
  Leaves(const ModelConfig& model, const Pins& pins) : model_(model), pins_(pins) {}

  void add(Plan plan) {
    for (const auto zero : choices(pins_.zero_stage, {0, 1, 2, 3}))
      for (const auto recompute : choices(pins_.recompute, {Recompute::kNone, Recompute::kFull}))
        for (const auto gather :
             choices(pins_.gather, {GatherUnit::kLayer, GatherUnit::kOperator})) {
          plan.zero_stage = zero;
          plan.recompute = recompute;
          plan.gather = gather;
          add_homes(plan);
        }
  }
  std::vector<Plan> take() {
    if (leaves_.empty()) throw_bad_input(why_illegal_);
    return std::move(leaves_);
  }

 private:
  void add_homes(Plan plan) {
    const std::vector<Tier> tiers{Tier::kGpu, Tier::kCpu};
    for (const Tier params : choices(pins_.params, tiers))
      for (const Tier grads : choices(pins_.grads, tiers))
        for (const Tier optimizer : choices(pins_.optimizer, tiers))
          for (const Tier activations : choices(pins_.activations, tiers)) {
            plan.placement = {params, grads, optimizer, activations};
            if (const auto why = illegal(plan, shape_of(model_))) {
              if (why_illegal_.empty()) why_illegal_ = *why;
            } else {
              leaves_.push_back(plan);
            }
          }
  }

  const ModelConfig& model_;
  const Pins& pins_;
  std::vector<Plan> leaves_;
  std::string why_illegal_;
};

// The choices that are the same in all leaves.
Plan fixed_part(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  Plan plan;
  plan.model = model.name;
  plan.hardware = cluster.name;
  plan.kernel_set = pins.kernel_set.value_or(cluster.node.device.kernel_set);
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = find_kernel_set(plan.kernel_set).loss_scaling;
  plan.clip = pins.clip.value_or(plan.clip);
  plan.prefetch = pins.prefetch.value_or(plan.prefetch);
  plan.batch.global_batch = pins.global_batch.value_or(model.global_batch);
  plan.batch.sequence = pins.sequence.value_or(model.sequence);
  return plan;
}

}  // namespace

std::vector<Plan> enumerate(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  require_positive("dp", pins.dp);
  require_positive("pp", pins.pp);
  require_positive("micro-batch", pins.micro_batch);
  Plan plan = fixed_part(model, cluster, pins);
  require_sane(plan.batch);
  const std::int64_t global_batch = plan.batch.global_batch;
  const std::vector<Parallel> all = shapes(model, cluster, pins);
  Leaves leaves(model, pins);
  bool divides = false;
  for (const Parallel& shape : all) {
    if (global_batch % shape.dp != 0) continue;
    divides = true;
    plan.parallel = shape;
    for (const auto micro : choices(pins.micro_batch, divisors(global_batch / shape.dp))) {
      plan.batch.micro_batch = micro;
      leaves.add(plan);
    }
  }
  if (!divides) batch_fits_nowhere(all, global_batch);
  return leaves.take();
}

}  // namespace zplan
