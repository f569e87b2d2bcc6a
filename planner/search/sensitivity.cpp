#include "planner/search/sensitivity.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

#include "planner/core/error.h"
#include "planner/cost/cost_change.h"
#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

// A quantity of the cluster while it is looked at.
struct Looked {
  const HardwareQuantity* quantity = nullptr;
  // One way, for the critical path: the cluster, and what it makes of the costs.
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<CostModel> costs;
  double factor = 1;
  std::optional<ShadowPrice> price;
  bool is_done = false;
};

constexpr double kNearlyNothing = 1e-12;

std::vector<Looked> quantities_of(const Cluster& cluster) {
  std::vector<Looked> found;
  for (const HardwareQuantity& quantity : hardware_quantities()) {
    const bool is_size = quantity.unit == QuantityUnit::kBytes || is_layout(quantity.name);
    const std::optional<double> value = quantity.get(cluster);
    if (is_size || !value || *value < kNearlyNothing) continue;
    found.push_back({.quantity = &quantity,
                     .cluster = {},
                     .costs = {},
                     .factor = 1,
                     .price = {},
                     .is_done = false});
  }
  return found;
}

// Of whole numbers the nearest that differs, as a factor of what there is.
double possible_factor(const HardwareQuantity& quantity, const Cluster& cluster, double factor) {
  if (quantity.unit != QuantityUnit::kCount) return factor;
  const double value = *quantity.get(cluster);
  const double least = factor > 1 ? value + 1 : value - 1;
  const double wanted = std::round(value * factor);
  return (factor > 1 ? std::max(wanted, least) : std::min(wanted, least)) / value;
}

std::optional<Cluster> changed_cluster(const Cluster& cluster, const HardwareQuantity& quantity,
                                       double factor) {
  const double value = *quantity.get(cluster) * factor;
  const QuantityChange change{
      &quantity, quantity.unit == QuantityUnit::kCount ? std::round(value) : value, false};
  try {
    return with_changes(cluster, {&change, 1});
  } catch (const Error&) {
    return std::nullopt;  // there is no such value: half a core, an oversubscription under 1
  }
}

double toward(const HardwareQuantity& quantity, bool better, double change) {
  return is_better_more(quantity) == better ? 1 + change : 1 - change;
}

// Whether any operation depends on the quantity.
bool touch(Looked& looked, const CostModel& as_is) {
  for (const bool better : {true, false}) {
    const double factor = possible_factor(*looked.quantity, as_is.cluster(),
                                          toward(*looked.quantity, better, kSlopeChange));
    std::optional<Cluster> changed = changed_cluster(as_is.cluster(), *looked.quantity, factor);
    if (!changed) continue;
    auto cluster = std::make_unique<Cluster>(*std::move(changed));
    auto costs = std::make_unique<CostModel>(as_is.job(), *cluster);
    if (costs_alike(as_is, *costs)) return false;
    looked.cluster = std::move(cluster);
    looked.costs = std::move(costs);
    looked.factor = factor;
    return true;
  }
  return false;
}

std::optional<PriceSide> side_of(const Looked& looked, const CostModel& as_is,
                                 const sim::SimResult& step, bool better, bool check) {
  const HardwareQuantity& quantity = *looked.quantity;
  const auto at = [&](double change) {
    return step_at(as_is.job(), as_is.cluster(), quantity, toward(quantity, better, change));
  };
  const std::optional<StepAt> near = at(kSlopeChange);
  if (!near) return std::nullopt;
  PriceSide side{.factor = near->factor,
                 .slope = (near->step.period - step.period) / effort(quantity, near->factor),
                 .check = {}};
  if (!check) return side;
  if (const std::optional<StepAt> far = at(kCheckedChange))
    side.check = check_price(as_is.job(), as_is.cluster(), quantity, side, step, *far);
  return side;
}

void find_price(Looked& looked, const CostModel& as_is, const sim::SimResult& step, bool check) {
  looked.is_done = true;
  if (!touch(looked, as_is)) return;
  ShadowPrice& price = looked.price.emplace();
  price.quantity = looked.quantity;
  price.value = *looked.quantity->get(as_is.cluster());
  price.better = side_of(looked, as_is, step, true, check);
  price.worse = side_of(looked, as_is, step, false, check);
}

// Several quantities at a time, as many as an operation can rest on.
constexpr std::size_t kTogether = 5;

void find_critical_shares(std::span<Looked*> looked, const CostModel& as_is) {
  CostModel model(as_is.job(), as_is.cluster());
  std::vector<CostChange> changes;
  for (const Looked* one : looked) {
    const auto kind = static_cast<HardwareTime>(changes.size());
    changes.push_back({one->costs.get(), one->factor, constant_of(kind)});
  }
  rest_on(model, changes);
  sim::SimOptions options;
  options.find_reliances = true;
  const std::vector<double> reliances = sim::simulate(model, options).reliances;
  for (std::size_t i = 0; i < looked.size(); ++i) {
    const double reliance = reliances[changes[i].constant];
    looked[i]->price->critical_share =
        is_better_more(*looked[i]->quantity) ? 0 - reliance : reliance;
  }
}

void sort_prices(std::vector<ShadowPrice>& prices) {
  constexpr double kSameChange = 0.1;
  std::stable_sort(prices.begin(), prices.end(), [](const ShadowPrice& a, const ShadowPrice& b) {
    return a.saved(kSameChange) > b.saved(kSameChange);
  });
}

}  // namespace

bool is_better_more(const HardwareQuantity& quantity) {
  return quantity.unit != QuantityUnit::kSeconds && quantity.unit != QuantityUnit::kFactor;
}

double effort(const HardwareQuantity& quantity, double factor) {
  return is_better_more(quantity) ? 1 / factor - 1 : factor - 1;
}

Seconds ShadowPrice::saved(double change) const {
  if (!better) return {};
  return Seconds{0} - better->slope * effort(*quantity, toward(*quantity, true, change));
}

Seconds ShadowPrice::lost(double change) const {
  if (!worse) return {};
  return worse->slope * effort(*quantity, toward(*quantity, false, change));
}

double ShadowPrice::per_unit() const {
  const Seconds slope = better ? better->slope : worse ? worse->slope : Seconds{};
  return (is_better_more(*quantity) ? 0 - slope.value : slope.value) / value;
}

bool ShadowPrice::bends_here(Seconds step) const {
  if (!better || !worse) return false;
  const double change = kCheckedChange;
  return !agrees(better->slope * change, worse->slope * change, step);
}

bool agrees(Seconds predicted, Seconds simulated, Seconds step) {
  constexpr double kOfChange = 0.1, kOfStep = 0.001;
  const double off = std::abs(predicted.value - simulated.value);
  return off <= std::max(kOfChange * std::abs(simulated.value), kOfStep * step.value);
}

std::optional<StepAt> step_at(const Job& job, const Cluster& cluster,
                              const HardwareQuantity& quantity, double factor) {
  const double possible = possible_factor(quantity, cluster, factor);
  const std::optional<Cluster> changed = changed_cluster(cluster, quantity, possible);
  if (!changed) return std::nullopt;
  sim::SimOptions options;
  options.find_reliances = true;
  return StepAt{possible, sim::simulate(job, *changed, options)};
}

Sensitivity find_sensitivity(const Job& job, const Cluster& cluster,
                             const SensitivityOptions& options) {
  const CostModel as_is(job, cluster);
  Sensitivity found;
  sim::SimOptions sim_options;
  sim_options.find_reliances = true;
  found.step = sim::simulate(as_is, sim_options);
  std::vector<Looked> looked = quantities_of(cluster);
  std::atomic<std::size_t> done = 0;
  WorkerPool pool(options.threads);
  const auto stopped = [&] { return options.stop && options.stop(); };
  pool.for_each(looked.size(), [&](std::size_t i) {
    if (stopped()) return;
    find_price(looked[i], as_is, found.step, options.check);
    if (options.progress) options.progress(++done, looked.size());
  });
  std::vector<Looked*> priced;
  for (Looked& one : looked) {
    if (one.price) priced.push_back(&one);
    if (one.is_done && !one.price) found.untouched.push_back(one.quantity);
    found.is_stopped = found.is_stopped || !one.is_done;
  }
  const std::size_t groups = (priced.size() + kTogether - 1) / kTogether;
  pool.for_each(groups, [&](std::size_t i) {
    const std::size_t begin = i * kTogether;
    find_critical_shares({priced.data() + begin, std::min(kTogether, priced.size() - begin)},
                         as_is);
  });
  for (Looked* one : priced) found.prices.push_back(*std::move(one->price));
  sort_prices(found.prices);
  return found;
}

}  // namespace zplan
