// Properties of planner/search. With invented evaluators: the answer is that of brute force under
// the tie rule, for any number of threads, and the figures beside it are honest. With the real one:
// closed forms never exceed what placement and simulation find.
#include "planner/search/search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "planner/cost/bounds.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/search/bytes_bound.h"
#include "planner/search/time_floor.h"
#include "sim/simulate.h"
#include "tests/support/kernels_alone.h"

namespace zplan {

static void showValue(const Plan& plan, std::ostream& out) { out << to_json(plan); }

namespace {

constexpr std::int64_t kRoom = 1000;

// ---- invented evaluators -----------------------------------------------------------------------

// What is true of one leaf, and what is known of it on each rung.
struct Truth {
  double estimate = 0, bound = 0, time = 0;
  std::int64_t bytes = 0, least_bytes = 0;
};

struct World {
  std::vector<Plan> plans;
  std::vector<Truth> truths;
  mutable std::atomic<std::int64_t> fitted = 0, simulated = 0;

  const Truth& of(Plan plan) const {
    plan.slack = Plan{}.slack;
    const auto at = std::find(plans.begin(), plans.end(), plan);
    return truths[static_cast<std::size_t>(at - plans.begin())];
  }
  static std::optional<Infeasible> check(std::int64_t bytes) {
    if (bytes <= kRoom) return std::nullopt;
    Infeasible why;
    why.needed = {bytes};
    why.available = {kRoom};
    return why;
  }
  Evaluator evaluator() const {
    Evaluator e;
    e.estimate = [this](const Plan& p) {
      return Estimate{{of(p).estimate}, check(of(p).least_bytes)};
    };
    e.fit = [this](const Plan& p) {
      ++fitted;
      return Fit{{of(p).bound}, check(of(p).bytes), {of(p).bytes}, p.slack, p.prefetch};
    };
    e.simulate = [this](const Plan& p) {
      ++simulated;
      return Seconds{of(p).time};
    };
    return e;
  }
};

// Times near each other, so that ties abound; bounds from exact to useless.
void draw(World& world, const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  world.plans = enumerate(model, cluster, pins);
  const int spread = *rc::gen::element(1, 20, 1000);
  const int slackness = *rc::gen::element(0, 5, 200);
  const auto room = *rc::gen::inRange<std::int64_t>(1, 4);
  for (std::size_t i = 0; i < world.plans.size(); ++i) {
    Truth t;
    t.time = 10.0 + 0.005 * *rc::gen::inRange(0, spread);
    t.bound = t.time - 0.005 * *rc::gen::inRange(0, slackness + 1);
    t.estimate = t.bound - 0.005 * *rc::gen::inRange(0, slackness + 1);
    t.bytes = kRoom / 4 * *rc::gen::inRange<std::int64_t>(room, room + 5);
    t.least_bytes = t.bytes - *rc::gen::element<std::int64_t>(0, 100, t.bytes);
    world.truths.push_back(t);
  }
}

auto preference(const World& world, std::size_t i) {
  return std::tuple(tiers_used(family_of(world.plans[i])), world.truths[i].bytes, i);
}

std::optional<std::size_t> brute_force(const World& world) {
  double fastest = 1e300;
  for (const Truth& t : world.truths)
    if (t.bytes <= kRoom) fastest = std::min(fastest, t.time);
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < world.plans.size(); ++i) {
    const Truth& t = world.truths[i];
    if (t.bytes > kRoom || t.time > fastest * (1 + kTieTolerance)) continue;
    if (!best || preference(world, i) < preference(world, *best)) best = i;
  }
  return best;
}

void check_rejections(const World& world, const SearchResult& result) {
  std::set<Family> families;
  for (const Plan& plan : world.plans) families.insert(family_of(plan));
  if (result.best) families.erase(family_of(result.best->plan));
  RC_ASSERT(result.rejected.size() == families.size());
  auto family = families.begin();
  for (const Rejected& line : result.rejected) {
    RC_ASSERT(line.family == *family++);
    RC_ASSERT(family_of(line.best.plan) == line.family);
    RC_ASSERT(!line.reason.empty());
    bool any_fits = false;
    std::int64_t least = INT64_MAX;
    for (std::size_t i = 0; i < world.plans.size(); ++i) {
      if (family_of(world.plans[i]) != line.family) continue;
      any_fits = any_fits || world.truths[i].bytes <= kRoom;
      least = std::min(least, world.truths[i].bytes);
    }
    RC_ASSERT(line.best.infeasible.has_value() == !any_fits);
    if (any_fits) RC_ASSERT(world.of(line.best.plan).bytes <= kRoom);
    if (!any_fits) RC_ASSERT(line.best.infeasible->needed.value == least);
  }
}

struct Setting {
  ModelConfig model = load_model("tiny");
  Cluster cluster = load_cluster("workstation");
  Pins pins;
  Setting() {
    pins.prefetch = 1;
    pins.recompute = Recompute::kFull;
  }
};

RC_GTEST_PROP(SearchProperty, FindsWhatBruteForceFinds, ()) {
  const Setting at;
  World world;
  draw(world, at.model, at.cluster, at.pins);
  const auto expected = brute_force(world);
  SearchOptions options;
  options.threads = *rc::gen::inRange(1, 5);
  options.exhaustive = *rc::gen::arbitrary<bool>();
  const SearchResult result = search(at.model, at.cluster, at.pins, world.evaluator(), options);
  RC_ASSERT(result.best.has_value() == expected.has_value());
  RC_ASSERT(result.closest.has_value() == !expected.has_value());
  if (expected) {
    RC_ASSERT(result.best->plan == world.plans[*expected]);
    RC_ASSERT(result.best->step->value == world.truths[*expected].time);
  }
  RC_ASSERT(result.stats.gap == 0);
  RC_ASSERT(result.stats.space == static_cast<std::int64_t>(world.plans.size()));
  RC_ASSERT(result.stats.simulated == world.simulated);
  RC_ASSERT(result.stats.visited <= world.fitted);  // suggestions lower plans, too
  RC_ASSERT(result.stats.simulated <= result.stats.visited);
  check_rejections(world, result);
}

RC_GTEST_PROP(SearchProperty, DoesNotDependOnThreads, ()) {
  const Setting at;
  World world;
  draw(world, at.model, at.cluster, at.pins);
  SearchOptions options;
  options.max_simulated = *rc::gen::element<std::int64_t>(1, 10, 1000);
  const SearchResult one = search(at.model, at.cluster, at.pins, world.evaluator(), options);
  options.threads = 4;
  const SearchResult four = search(at.model, at.cluster, at.pins, world.evaluator(), options);
  RC_ASSERT(one.best.has_value() == four.best.has_value());
  if (one.best) RC_ASSERT(one.best->plan == four.best->plan);
  RC_ASSERT(one.stats.visited == four.stats.visited);
  RC_ASSERT(one.stats.simulated == four.stats.simulated);
  RC_ASSERT(one.stats.gap == four.stats.gap);
  for (std::size_t i = 0; i < one.rejected.size(); ++i) {
    RC_ASSERT(one.rejected[i].reason == four.rejected[i].reason);
    RC_ASSERT(one.rejected[i].best.plan == four.rejected[i].best.plan);
  }
}

// A search cut short may miss the best plan, but not by more than its gap.
RC_GTEST_PROP(SearchProperty, TheGapIsHonest, ()) {
  const Setting at;
  World world;
  draw(world, at.model, at.cluster, at.pins);
  SearchOptions options;
  options.max_simulated = 1;
  const SearchResult result = search(at.model, at.cluster, at.pins, world.evaluator(), options);
  const auto expected = brute_force(world);
  RC_ASSERT(result.best.has_value() == expected.has_value());
  if (!expected) return;
  double fastest = 1e300;
  for (const Truth& t : world.truths)
    if (t.bytes <= kRoom) fastest = std::min(fastest, t.time);
  // The winner is within the tolerance of the fastest one simulated.
  const double simulated = result.best->step->value / (1 + kTieTolerance);
  RC_ASSERT(fastest >= simulated * (1 - result.stats.gap) - 1e-12);
}

// ---- closed forms ------------------------------------------------------------------------------

ModelConfig draw_model() {
  ModelConfig m = load_model("tiny");
  m.layers = *rc::gen::inRange<std::int64_t>(1, 6);
  m.heads = *rc::gen::element<std::int64_t>(1, 2, 4);
  m.hidden = m.heads * *rc::gen::element<std::int64_t>(8, 24, 128);
  m.ffn = m.hidden * *rc::gen::inRange<std::int64_t>(1, 5);
  m.vocab = *rc::gen::element<std::int64_t>(11, 256, 5000);
  m.sequence = *rc::gen::element<std::int64_t>(1, 16, 300);
  m.tied_embeddings = *rc::gen::arbitrary<bool>();
  m.global_batch = 48;
  return m;
}

// Few tokens against wide matrices: traffic of the gradients counts.
ModelConfig draw_wide_model() {
  ModelConfig m = draw_model();
  m.hidden = m.heads * *rc::gen::element<std::int64_t>(256, 1024, 4096);
  m.ffn = m.hidden * *rc::gen::inRange<std::int64_t>(1, 5);
  m.vocab = *rc::gen::inRange<std::int64_t>(1, (1 << 20) + 1);
  m.sequence = *rc::gen::element<std::int64_t>(1, 16, 128);
  return m;
}

Plan draw_plan(const ModelConfig& model, const Cluster& cluster) {
  Pins pins;
  pins.dp = *rc::gen::element(1, 2, 4, 6);
  pins.pp = static_cast<std::int32_t>(
      *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(model.layers, 3) + 1));
  pins.prefetch = *rc::gen::inRange(0, 4);
  pins.clip = *rc::gen::arbitrary<bool>();
  return *rc::gen::elementOf(enumerate(model, cluster, pins));
}

RC_GTEST_PROP(SearchProperty, BytesBoundsStayBelowThePlacedSlabs, ()) {
  const ModelConfig model = draw_model();
  const Cluster cluster = load_cluster(*rc::gen::element<std::string>("dgx2x2", "dgx-a100x3"));
  const Plan plan = draw_plan(model, cluster);
  RC_TAG(name(family_of(plan)));
  Job job = lower(plan, model);
  place(job, {.slack = 0});
  const std::vector<TierBytes> bound = bytes_bound(plan, model);
  RC_ASSERT(bound.size() == job.classes.size());
  for (std::size_t stage = 0; stage < bound.size(); ++stage)
    for (std::size_t tier = 0; tier < kTierCount; ++tier)
      RC_ASSERT(bound[stage][tier].value <= job.classes[stage].placement.slab[tier].value);
}

void check_time_bounds(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  RC_TAG(name(family_of(plan)));
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  const Seconds floor = time_floor(plan, model, cluster);
  const Seconds bound = seconds_lower_bound(job, cluster);
  const Seconds period = sim::simulate(job, cluster).period;
  RC_ASSERT(floor <= period);
  RC_ASSERT(bound <= period);
  // The floor is a part of the compute lane; over several stages it is not.
  if (plan.parallel.pp == 1) RC_ASSERT(floor <= bound);
}

RC_GTEST_PROP(SearchProperty, TimeBoundsStayBelowTheSimulatedPeriod, ()) {
  const ModelConfig model = draw_model();
  const Cluster cluster = load_cluster(*rc::gen::element<std::string>("dgx2x2", "dgx-a100x3"));
  check_time_bounds(draw_plan(model, cluster), model, cluster);
}

// Where neither launches nor links take time, nothing covers a bound that is too great.
RC_GTEST_PROP(SearchProperty, TimeBoundsStayBelowThePeriodOfKernelsAlone, ()) {
  const ModelConfig model = draw_wide_model();
  const Cluster cluster =
      kernels_alone(load_cluster(*rc::gen::element<std::string>("dgx2x2", "dgx-a100x3")));
  check_time_bounds(draw_plan(model, cluster), model, cluster);
}

}  // namespace
}  // namespace zplan
