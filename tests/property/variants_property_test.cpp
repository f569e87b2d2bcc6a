// Properties of a search over variants (planner/search/variants.h), with invented evaluators: no
// plan of the space is faster than the gap lets it be, wherever the search ends.
#include "planner/search/variants.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/search/search.h"
#include "tests/support/pinned.h"

namespace zplan {
namespace {

using testing_support::pinned;

constexpr std::int64_t kRoom = 1000;

// What is true of a plan that was not drawn: variations by knobs outside the space never fit.
struct Truth {
  double floor = 0, bound = 0, time = 0;
  std::int64_t bytes = 2 * kRoom, least_bytes = 2 * kRoom;
};

// Plans as the real evaluator sees them: one floor for all homes, one bound for these and all
// depths of prefetch, and one of each, never less than that of a deeper one. Deeper ones take no
// less memory and may be faster.
class World {
 public:
  World(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
    const Variants variants(model, cluster, pins);
    for (const Plan& leaf : enumerate(model, cluster, pins)) {
      leaf_bytes_ = 0;
      for (const Plan& variant : variants.of(leaf)) draw(variants.depths(variant));
    }
  }

  std::vector<Truth> all() const {
    std::vector<Truth> result;
    for (const auto& [key, truth] : truths_) result.push_back(truth);
    return result;
  }

  Evaluator evaluator() const {
    Evaluator e;
    operations_ = 0;
    e.estimate = [this](const Plan& p) {
      return Estimate{{of(p).floor}, check(of(p).least_bytes)};
    };
    e.fit = [this](const Plan& p) {
      ++operations_;
      return Fit{{of(p).bound}, check(of(p).bytes), {of(p).bytes}, p.slack, p.prefetch, p.gather};
    };
    e.simulate = [this](const Plan& p) {
      ++operations_;
      return Seconds{of(p).time};
    };
    e.bound = e.bound_of_depths = [this](const Plan& p) {
      ++operations_;
      return Seconds{of(p).bound};
    };
    e.shared_work = [this](const Plan& p) {
      ++operations_;
      return Seconds{shared_.at(key_of_all_homes(p))};
    };
    e.operations = [this] { return operations_.load(); };
    return e;
  }

  static bool fits(const Truth& truth) { return truth.bytes <= kRoom; }

 private:
  static std::string key_of(Plan plan) {
    plan.slack = Plan{}.slack;
    return to_json(plan);
  }

  static std::string key_of_all_homes(Plan plan) {
    plan.placement = {};
    plan.prefetch = 0;
    return key_of(plan);
  }

  const Truth& of(const Plan& plan) const {
    static const Truth kNeverFits;
    const auto at = truths_.find(key_of(plan));
    return at == truths_.end() ? kNeverFits : at->second;
  }

  static std::optional<Infeasible> check(std::int64_t bytes) {
    if (bytes <= kRoom) return std::nullopt;
    Infeasible why;
    why.tier = Tier::kCpu;
    why.needed = {bytes};
    why.available = {kRoom};
    return why;
  }

  // Tiles have kernels of their own, the number of layers together changes none.
  double floor_of(const Plan& plan) {
    const auto [at, is_new] = floors_.emplace(
        std::tuple(plan.recompute.front().mode, plan.gather.by_layer(), plan.gather.tiles()), 0);
    if (is_new) at->second = 10 + 0.1 * *rc::gen::inRange(0, 100);
    return at->second;
  }

  void draw(const std::vector<Plan>& depths) {
    Truth truth;
    truth.floor = floor_of(depths.front());
    double bound = truth.floor + 0.1 * *rc::gen::inRange(0, 20);
    std::vector<double> bounds;
    for (std::size_t i = 0; i < depths.size(); ++i, bound += 0.1 * *rc::gen::inRange(0, 10))
      bounds.insert(bounds.begin(), bound);
    truth.least_bytes = kRoom / 4 * *rc::gen::inRange<std::int64_t>(1, 7);
    truth.bytes = truth.least_bytes + *rc::gen::element<std::int64_t>(0, 100, kRoom / 2);
    if (depths.front().gather.by_layer()) {
      truth.bytes = std::max(truth.bytes, leaf_bytes_);
      leaf_bytes_ = std::max(leaf_bytes_, truth.bytes);
    }
    const auto [shared, is_first] =
        shared_.emplace(key_of_all_homes(depths.front()), bounds.back());
    if (!is_first) shared->second = std::min(shared->second, bounds.back());
    for (std::size_t i = 0; i < depths.size(); ++i) {
      truth.bound = bounds[i];
      truth.time = truth.bound + 0.1 * *rc::gen::inRange(0, 30);
      truths_[key_of(depths[i])] = truth;
      truth.bytes += *rc::gen::element<std::int64_t>(0, 0, kRoom / 4);
    }
  }

  std::map<std::string, Truth> truths_;
  std::map<std::string, double> shared_;  // least of all homes and depths
  std::int64_t leaf_bytes_ = 0;           // that units of more layers do not undercut
  mutable std::atomic<std::int64_t> operations_ = 0;
  std::map<std::tuple<Recompute, bool, std::int32_t>, double> floors_;
};

// Few enough leaves to draw all their variants; homes of two states are free.
Pins few_leaves() {
  return pinned({{"/parallel/tp", "1"},
                 {"/parallel/pp", "1"},
                 {"/parallel/dp", "2"},
                 {"/batch/micro_batch", "2"},
                 {"/zero_stage", "3"},
                 {"/placement/grads", "gpu"},
                 {"/placement/activations", "gpu"}});
}

void check_gap(const SearchOptions& options) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  const World world(model, cluster, few_leaves());
  const SearchResult result = search(model, cluster, few_leaves(), world.evaluator(), options);
  double fastest = 1e300;
  for (const Truth& truth : world.all())
    if (World::fits(truth)) fastest = std::min(fastest, truth.time);
  RC_ASSERT(result.best.has_value() == (fastest < 1e300));
  if (!result.best) return;
  const double found = result.fastest.value_or(*result.best).step->value;
  RC_ASSERT(found >= fastest);
  RC_ASSERT(fastest >= found * (1 - result.stats.gap) - 1e-9);
  if (options.exhaustive) RC_ASSERT(result.stats.gap == 0);
}

SearchOptions drawn_options() {
  return {.threads = *rc::gen::inRange(1, 3),
          .variants = true,
          .max_simulated = *rc::gen::element<std::int64_t>(1, 5, SearchOptions{}.max_simulated),
          .min_operations = *rc::gen::element<std::int64_t>(0, 30, 200),
          .first_operations = *rc::gen::element<std::int64_t>(0, 20)};
}

RC_GTEST_PROP(VariantsProperty, NoPlanIsFasterThanTheGapLetsItBe, ()) {
  check_gap(drawn_options());
}

RC_GTEST_PROP(VariantsProperty, MoreSearchNeverMakesTheFastestPlanSlower, ()) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  const World world(model, cluster, few_leaves());
  SearchOptions options{.variants = true, .max_simulated = 1, .first_operations = 20};
  double before = 1e300;
  for (const std::int64_t operations : {20, 30, 45, 70, 110, 300}) {
    options.exhaustive = operations == 300;
    options.min_operations = operations;
    const Evaluator fresh = world.evaluator();
    const SearchResult result = search(model, cluster, few_leaves(), fresh, options);
    if (!result.best) continue;
    const double now = result.fastest.value_or(*result.best).step->value;
    RC_ASSERT(now <= before);
    before = now;
  }
}

RC_GTEST_PROP(VariantsProperty, AnExhaustiveSearchHasNoGap, ()) {
  SearchOptions options = drawn_options();
  options.exhaustive = true;
  check_gap(options);
}

}  // namespace
}  // namespace zplan
