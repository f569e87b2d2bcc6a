// Properties of planner/search. With invented evaluators: the answer is that of brute force under
// the tie rule, for any number of threads, and the figures beside it are honest. With the real one:
// closed forms never exceed what placement and simulation find.
#include "planner/search/job_bound.h"
#include "planner/search/search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>

#include "planner/cost/bounds.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/plan/choice_text.h"
#include "planner/search/bytes_bound.h"
#include "planner/search/outside_space.h"
#include "planner/search/simplicity.h"
#include "planner/search/stack_memory_use.h"
#include "planner/search/time_floor.h"
#include "planner/search/variants.h"
#include "sim/simulate.h"
#include "tests/support/kernels_alone.h"
#include "tests/support/sanitized.h"

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
  std::size_t wins_seed = 0;  // 0: no two plans are told apart
  mutable std::atomic<std::int64_t> fitted = 0, simulated = 0;

  // Variations by tuning knobs are not of the space: they never fit.
  const Truth& of(Plan plan) const {
    static const Truth kNeverFits{.bytes = 2 * kRoom, .least_bytes = 2 * kRoom};
    plan.slack = Plan{}.slack;
    const auto at = std::find(plans.begin(), plans.end(), plan);
    return at == plans.end() ? kNeverFits : truths[static_cast<std::size_t>(at - plans.begin())];
  }
  bool fits(std::size_t i) const { return truths[i].bytes <= kRoom; }
  // Of the plans that differ in nothing but the home of the optimizer states, the next closer and
  // the next farther one.
  std::optional<std::size_t> sibling(std::size_t i, int step) const {
    Plan plan = plans[i];
    const int tier = static_cast<int>(plan.placement.optimizer) + step;
    plan.placement.optimizer = static_cast<Tier>(tier);
    const auto at = std::find(plans.begin(), plans.end(), plan);
    if (at == plans.end()) return std::nullopt;
    return static_cast<std::size_t>(at - plans.begin());
  }
  // A closer sibling fits.
  bool set_aside(std::size_t i) const {
    const auto closer = sibling(i, -1);
    return closer && (fits(*closer) || set_aside(*closer));
  }
  // The most by which a recommended plan may be slower than the fastest.
  double tolerance() const { return wins_seed > 0 ? kTierTolerance : kTieTolerance; }
  double tolerance(const Plan& fastest, const Plan& other) const {
    const Simplicity a = simplicity_of(fastest), b = simplicity_of(other);
    const bool is_nearer = std::tie(b.tiers, b.states_off) < std::tie(a.tiers, a.states_off);
    return is_nearer ? tolerance() : kTieTolerance;
  }
  int wins(const Plan& fastest, const Plan& other) const {
    const auto place = [this](Plan plan) {
      plan.slack = Plan{}.slack;
      return static_cast<std::size_t>(std::find(plans.begin(), plans.end(), plan) - plans.begin());
    };
    return static_cast<int>(wins_seed * (place(fastest) * 31 + place(other) * 17) % 101);
  }
  static std::optional<Infeasible> check(std::int64_t bytes) {
    if (bytes <= kRoom) return std::nullopt;
    Infeasible why;
    why.needed = {bytes};
    why.available = {kRoom};
    why.tier = Tier::kCpu;
    return why;
  }
  Evaluator evaluator() const {
    Evaluator e;
    e.estimate = [this](const Plan& p) {
      return Estimate{{of(p).estimate}, check(of(p).least_bytes)};
    };
    e.fit = [this](const Plan& p) {
      ++fitted;
      return Fit{{of(p).bound}, check(of(p).bytes), {of(p).bytes}, p.slack, p.prefetch, p.gather};
    };
    e.simulate = [this](const Plan& p) {
      ++simulated;
      return Seconds{of(p).time};
    };
    if (wins_seed > 0) e.wins = [this](const Plan& a, const Plan& b) { return wins(a, b); };
    return e;
  }
};

// Plans that differ in homes alone run the same kernels and have one floor.
void share_estimates(World& world) {
  for (std::size_t i = 0; i < world.plans.size(); ++i) {
    if (world.sibling(i, -1)) continue;
    double least = world.truths[i].estimate;
    for (auto at = world.sibling(i, 1); at; at = world.sibling(*at, 1))
      least = std::min(least, world.truths[*at].estimate);
    for (std::optional<std::size_t> at = i; at; at = world.sibling(*at, 1))
      world.truths[*at].estimate = least;
  }
}

// Times near each other, so that ties abound; bounds from exact to useless. No plan is faster than
// the bounds of one that keeps its states closer to the GPU: a search that found these too slow
// does not look farther (planner/search/siblings.h).
void draw(World& world, const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  world.plans = enumerate(model, cluster, pins);
  const int spread = *rc::gen::element(1, 20, 1000);
  const int slackness = *rc::gen::element(0, 5, 200);
  const auto room = *rc::gen::inRange<std::int64_t>(1, 4);
  world.wins_seed = *rc::gen::element<std::size_t>(0, 7, 97);
  for (std::size_t i = 0; i < world.plans.size(); ++i) {
    Truth t;
    t.time = 10.0 + 0.005 * *rc::gen::inRange(0, spread);
    t.bound = t.time - 0.005 * *rc::gen::inRange(0, slackness + 1);
    t.estimate = t.bound - 0.005 * *rc::gen::inRange(0, slackness + 1);
    t.bytes = kRoom / 4 * *rc::gen::inRange<std::int64_t>(room, room + 5);
    t.least_bytes = t.bytes - *rc::gen::element<std::int64_t>(0, 100, t.bytes);
    world.truths.push_back(t);
    for (auto at = world.sibling(i, -1); at; at = world.sibling(*at, -1)) {
      Truth& closer = world.truths[*at];
      closer.bound = std::min(closer.bound, t.time);
      closer.estimate = std::min(closer.estimate, t.time);
    }
  }
  share_estimates(world);
}

struct Best {
  std::size_t recommended = 0, fastest = 0;
};

// Of plans that fit, with the places that decide between equal ones.
Best choose(const World& world, const std::map<std::size_t, std::size_t>& plans) {
  const auto time = [&](std::size_t i) { return world.truths[i].time; };
  const auto order = [&](std::size_t i) {
    return std::tuple(simplicity_of(world.plans[i]), world.truths[i].bytes, plans.at(i));
  };
  Best best{plans.begin()->first, plans.begin()->first};
  for (const auto& [i, place] : plans)
    if (std::pair(time(i), order(i)) < std::pair(time(best.fastest), order(best.fastest)))
      best.fastest = i;
  best.recommended = best.fastest;
  for (const auto& [i, place] : plans) {
    const bool near =
        time(i) <=
        time(best.fastest) * (1 + world.tolerance(world.plans[best.fastest], world.plans[i]));
    const bool apart =
        world.wins_seed > 0 && world.wins(world.plans[best.fastest], world.plans[i]) >= kToldApart;
    if (near && !apart && order(i) < order(best.recommended)) best.recommended = i;
  }
  return best;
}

// Last of all the next farther homes of both plans may turn out faster.
std::optional<Best> brute_force(const World& world, bool exhaustive) {
  std::map<std::size_t, std::size_t> plans;
  for (std::size_t i = 0; i < world.plans.size(); ++i)
    if (world.fits(i) && (exhaustive || !world.set_aside(i))) plans.emplace(i, i);
  if (plans.empty()) return std::nullopt;
  const Best best = choose(world, plans);
  if (exhaustive) return best;
  std::size_t place = world.plans.size();
  for (const std::size_t i : {best.fastest, best.recommended}) {
    const auto next = world.sibling(i, 1);
    if (!next || !world.fits(*next)) continue;
    if (world.truths[*next].bound * (1 + kTieTolerance) < world.truths[i].time)
      plans.emplace(*next, place++);
  }
  return choose(world, plans);
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
    for (std::size_t i = 0; i < world.plans.size(); ++i)
      any_fits = any_fits || (family_of(world.plans[i]) == line.family && world.fits(i));
    if (!line.best.infeasible) continue;
    RC_ASSERT(!any_fits);
    RC_ASSERT(line.best.infeasible->needed.value > kRoom);
    RC_ASSERT(line.best.infeasible->needed.value <= world.of(line.best.plan).bytes);
  }
}

struct Setting {
  ModelConfig model = load_model("tiny");
  Cluster cluster = load_cluster("workstation");
  Pins pins;
  Setting() {
    pins.set("/parallel/tp", 1);
    pins.set("/gather/prefetch", 1);
    pins.tunes_units = false;
    pins.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull}});
    pins.set("/placement/params", Tier::kGpu);
    pins.set("/placement/grads", Tier::kGpu);
    pins.set("/placement/activations", Tier::kGpu);
    pins.set("/placement/optimizer_near", 0.0);
    pins.set("/checkpoint_layers", 1);
    if (*rc::gen::arbitrary<bool>()) return;
    pins.set("/kernel_set", "cpu.bf16");
    pins.recipes = {*rc::gen::element<std::string>(std::string(kAnyRecipe), "lean")};
  }
};

RC_GTEST_PROP(SearchProperty, FindsWhatBruteForceFinds, ()) {
  const Setting at;
  World world;
  draw(world, at.model, at.cluster, at.pins);
  SearchOptions options;
  options.threads = *rc::gen::inRange(1, 5);
  options.exhaustive = *rc::gen::arbitrary<bool>();
  const auto expected = brute_force(world, options.exhaustive);
  const SearchResult result = search(at.model, at.cluster, at.pins, world.evaluator(), options);
  RC_ASSERT(result.best.has_value() == expected.has_value());
  RC_ASSERT(result.closest.has_value() == !expected.has_value());
  if (expected) {
    RC_ASSERT(result.best->plan == world.plans[expected->recommended]);
    const double step = world.truths[expected->recommended].time;
    const double fastest = world.truths[expected->fastest].time;
    RC_ASSERT(result.best->step->value == step);
    RC_ASSERT(result.fastest.has_value() == (fastest < step));
    RC_ASSERT(result.wins.has_value() == (fastest < step && world.wins_seed > 0));
    if (result.fastest) RC_ASSERT(result.fastest->plan == world.plans[expected->fastest]);
  }
  RC_ASSERT(result.stats.gap == 0);
  RC_ASSERT(result.stats.space == static_cast<std::int64_t>(world.plans.size()));
  RC_ASSERT(result.stats.simulated <= world.simulated);  // knobs simulate, too
  RC_ASSERT(result.stats.visited <= world.fitted);       // and suggestions lower plans
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
  RC_ASSERT(one.fastest.has_value() == four.fastest.has_value());
  if (one.fastest) RC_ASSERT(one.fastest->plan == four.fastest->plan);
  RC_ASSERT(one.wins == four.wins);
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
  const auto expected = brute_force(world, false);
  RC_ASSERT(result.best.has_value() == expected.has_value());
  if (!expected) return;
  // Of leaves that wait for a closer sibling nothing is claimed: it is assumed to be as fast.
  double fastest = 1e300;
  for (std::size_t i = 0; i < world.plans.size(); ++i)
    if (world.fits(i) && !world.sibling(i, -1)) fastest = std::min(fastest, world.truths[i].time);
  const double simulated = result.fastest.value_or(*result.best).step->value;
  RC_ASSERT(fastest >= simulated * (1 - result.stats.gap) - 1e-12);
  RC_ASSERT(result.best->step->value <= simulated * (1 + world.tolerance()));
}

// What is said to be rejected is: with a budget as small as it may be, no plan of such a family is
// faster than the recommended one.
RC_GTEST_PROP(SearchProperty, NoRejectedFamilyHasAFasterPlan, ()) {
  const Setting at;
  World world;
  draw(world, at.model, at.cluster, at.pins);
  SearchOptions options;
  options.variants = true;
  options.max_simulated = *rc::gen::element<std::int64_t>(1, 4, 16);
  const SearchResult result = search(at.model, at.cluster, at.pins, world.evaluator(), options);
  if (!result.best) return;
  std::map<Family, double> fastest;
  for (std::size_t i = 0; i < world.plans.size(); ++i)
    if (world.fits(i)) {
      const auto [at_family, is_new] =
          fastest.emplace(family_of(world.plans[i]), world.truths[i].time);
      if (!is_new) at_family->second = std::min(at_family->second, world.truths[i].time);
    }
  for (const Rejected& line : result.rejected) {
    if (!fastest.contains(line.family)) continue;
    RC_LOG() << name(line.family) << ": " << line.reason << "\n";
    if (line.standing == Standing::kRejected)
      RC_ASSERT(fastest[line.family] >= result.best->step->value);
    if (line.from)
      RC_ASSERT(line.from->value <= result.best->step->value * (1 + world.tolerance()));
  }
}

// ---- closed forms ------------------------------------------------------------------------------

// What layers of later families do otherwise, each with all of the others.
LayerFeatures draw_features() {
  LayerFeatures x;
  const auto maybe = [] { return *rc::gen::inRange(0, 3) == 0; };
  if (maybe()) x.activation = Activation::kRelu;
  if (maybe()) x.norm_epsilon = 1'000'000;
  if (maybe()) x.attention_cap = 2;
  if (maybe()) x.logit_cap = 3;
  x.embedding_norm = maybe();
  x.scaled_embedding = maybe();
  x.scaled_logits = maybe();
  x.head_transform = maybe();
  x.attention_sinks = maybe();
  if (maybe()) {
    x.window = *rc::gen::element<std::int64_t>(1, 3, 100);
    x.window_layers = *rc::gen::inRange<std::int64_t>(1, 4);
    x.full_layers = *rc::gen::inRange<std::int64_t>(0, 3);
  }
  return x;
}

// Layers that attend to those before them, and nothing that does not go with that.
void make_encoder(ModelConfig& m) {
  if (m.position == Position::kAlibi) m.position = Position::kLearned;
  m.encoder_layers = *rc::gen::inRange<std::int64_t>(1, m.layers);
  m.layer = {.activation = m.layer.activation,
             .scaled_embedding = m.layer.scaled_embedding,
             .scaled_logits = m.layer.scaled_logits,
             .head_transform = m.layer.head_transform};
  m.layer.residual_of_norm = *rc::gen::arbitrary<bool>();
  if (m.position == Position::kLearned || *rc::gen::arbitrary<bool>()) return;
  m.layer.relative_buckets = 4 * *rc::gen::inRange<std::int64_t>(1, 33);
}

ModelConfig draw_model() {
  ModelConfig m = load_model("tiny");
  m.layer = draw_features();
  m.layer.parallel_residual = *rc::gen::element(
      ParallelResidual::kNone, ParallelResidual::kTwoNorms, ParallelResidual::kOneNorm);
  if (*rc::gen::inRange(0, 4) == 0) m.position = Position::kAlibi;
  if (m.position == Position::kLearned) m.layer.segments = *rc::gen::inRange<std::int64_t>(0, 4);
  m.layer.residual_of_norm = m.layer.parallel_residual == ParallelResidual::kNone;
  m.layers = *rc::gen::inRange<std::int64_t>(1, 6);
  m.heads = m.kv_heads = *rc::gen::element<std::int64_t>(1, 2, 4);
  m.hidden = m.heads * *rc::gen::element<std::int64_t>(8, 24, 128);
  m.ffn = m.hidden * *rc::gen::inRange<std::int64_t>(1, 5);
  m.vocab = *rc::gen::element<std::int64_t>(11, 256, 5000);
  m.sequence = *rc::gen::element<std::int64_t>(1, 16, 300);
  m.tied_embeddings = *rc::gen::arbitrary<bool>();
  m.global_batch = 48;
  if (m.layers > 1 && *rc::gen::inRange(0, 3) == 0) make_encoder(m);
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

// Behind the layers modules that predict further tokens, and nothing that does not go with them.
void add_modules(ModelConfig& m) {
  m.mtp_layers = *rc::gen::inRange<std::int64_t>(1, 3);
  m.layer.full_layers = 0;
  m.layer.window_layers = 1;
  m.layer.embedding_norm = m.layer.head_transform = m.layer.scaled_logits = false;
  m.layer.unturned_every = 0;
  if (m.experts && m.experts->takes_turns()) {
    m.experts->every = 1;
    m.experts->dense_layers = 0;
  }
}

// Norms of other kinds and places, a factor of branches, and layers without positions.
void vary_norms(ModelConfig& m) {
  const auto maybe = [] { return *rc::gen::inRange(0, 3) == 0; };
  m.norm = *rc::gen::element(Norm::kRmsNorm, Norm::kLayerNormNoBias, Norm::kLayerNormFixed);
  m.layer.whole_qk_norm = m.qk_norm && maybe();
  m.layer.only_post_norms = !m.layer.post_norms && !m.experts && maybe();
  if (maybe()) m.layer.residual_factor = kFactorUnit / 2;
  if (!m.latent && maybe()) m.layer.unturned_every = 2;
}

ModelConfig draw_llama() {
  ModelConfig m = load_model("llama3-8b");
  m.layers = *rc::gen::inRange<std::int64_t>(1, 5);
  m.kv_heads = *rc::gen::element<std::int64_t>(2, 4);
  m.heads = m.kv_heads * *rc::gen::element<std::int64_t>(1, 2);
  m.hidden = m.heads * *rc::gen::element<std::int64_t>(8, 32);
  m.ffn = 4 * *rc::gen::inRange<std::int64_t>(4, 200);
  m.vocab = *rc::gen::element<std::int64_t>(11, 5000);
  m.sequence = *rc::gen::element<std::int64_t>(4, 64);
  m.tied_embeddings = *rc::gen::arbitrary<bool>();
  m.global_batch = 48;
  m.qk_norm = *rc::gen::arbitrary<bool>();
  m.layer = draw_features();
  m.layer.post_norms = *rc::gen::arbitrary<bool>();
  if (*rc::gen::inRange(0, 3) == 0) {
    m.layer.window = m.layer.full_layers = m.layer.attention_cap = 0;
    m.layer.window_layers = 1;
    m.layer.attention_sinks = false;
    m.qk_norm = false;
    m.kv_heads = m.heads;
    m.latent = LatentShape{
        *rc::gen::element<std::int64_t>(0, 8, 48), *rc::gen::element<std::int64_t>(4, 40),
        *rc::gen::element<std::int64_t>(4, 24), 2 * *rc::gen::inRange<std::int64_t>(1, 9),
        *rc::gen::element<std::int64_t>(4, 32)};
  }
  if (*rc::gen::inRange(0, 3) == 0) {
    ExpertShape experts{.count = *rc::gen::element<std::int64_t>(2, 4, 6), .ffn = m.ffn};
    experts.per_token = *rc::gen::inRange<std::int64_t>(1, experts.count + 1);
    experts.groups = *rc::gen::element<std::int64_t>(1, 2);
    experts.groups_per_token = experts.per_token * 2 > experts.count ? experts.groups : 1;
    experts.every = m.layers % 2 == 0 ? *rc::gen::element<std::int64_t>(1, 2) : 1;
    experts.dense_layers = *rc::gen::inRange<std::int64_t>(0, experts.takes_turns() ? 2 : m.layers);
    experts.shared_ffn = *rc::gen::element<std::int64_t>(0, 16);
    experts.balance = *rc::gen::element(0.0, 0.01);
    m.experts = experts;
    m.layer.activation = Activation::kUsual;
    m.layer.post_norms = false;
  }
  vary_norms(m);
  if (*rc::gen::inRange(0, 3) == 0) add_modules(m);
  return m;
}

std::string draw_cluster() {
  return *rc::gen::element<std::string>("dgx2x2", "dgx2x3", "dgx-a100x4");
}

std::int32_t draw_stages(const ModelConfig& model) {
  if (model.encoder_layers > 0) return 1;
  const std::int64_t turns = model.layers / model.kind_layers();
  std::int64_t stages = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(turns, 3) + 1);
  while (model.kind_layers() > 1 && turns % stages != 0) --stages;  // no stage cuts a turn
  return static_cast<std::int32_t>(stages);
}

// Whether so many context parallel ranks can cut sequences and heads.
bool splits_sequences(const ModelConfig& model, int cp) {
  return model.encoder_layers == 0 && !model.balances_experts() && model.heads % cp == 0 &&
         model.kv_heads % cp == 0 && model.sequence % cp == 0;
}

Plan draw_plan(const ModelConfig& model, const Cluster& cluster) {
  Pins pins;
  pins.set("/parallel/dp", *rc::gen::element(1, 2, 4, 6));
  if (*rc::gen::inRange(0, 3) == 0) pins.set("/parallel/tp", 1);
  if (model.encoder_layers == 0 && *rc::gen::inRange(0, 3) == 0)
    pins.set("/parallel/schedule", Schedule::kGpipe);
  pins.set("/kernel_set", cluster.node.device.kernel_set);
  const std::string& kernels = pins.values().kernel_set;
  if (*rc::gen::inRange(0, 3) == 0 && !kernels.ends_with(".unfused"))
    pins.set("/kernel_set", kernels + ".unfused");
  pins.recipes = {std::string(kAnyRecipe)};
  pins.set("/parallel/pp", draw_stages(model));
  const Parallel& shape = pins.values().parallel;
  const int cp = *rc::gen::element(1, 2, 4);
  if (splits_sequences(model, cp) && shape.ranks() * cp <= cluster.devices())
    pins.set("/parallel/cp", cp);
  pins.set("/gather/prefetch", *rc::gen::inRange(0, 4));
  pins.set("/clip", *rc::gen::arbitrary<bool>());
  return *rc::gen::elementOf(enumerate(model, cluster, pins));
}

// Of one replica or, of a model with experts, of as many as share them.
Plan draw_waiting_plan(const ModelConfig& model, const Cluster& cluster) {
  Pins pins;
  const int ep = model.experts ? *rc::gen::element(1, 2) : 1;
  pins.set("/parallel/dp", ep);
  pins.set("/parallel/ep", ep);
  pins.set("/zero_stage", 0);
  for (const char* home : {"/placement/optimizer", "/placement/activations"})
    pins.set(home, Tier::kGpu);
  pins.set("/kernel_set", cluster.node.device.kernel_set);
  if (model.experts) pins.set("/experts/imbalance", *rc::gen::element(0.0, 1.0, 1.5));
  const int cp = *rc::gen::element(1, 2);
  if (splits_sequences(model, cp)) pins.set("/parallel/cp", cp);
  pins.set("/parallel/pp", draw_stages(model));
  pins.set("/clip", false);
  return *rc::gen::elementOf(enumerate(model, cluster, pins));
}

// Half of the time, and where it is legal.
template <typename Change>
void change_if_legal(Plan& plan, const ModelConfig& model, const Change& change) {
  Plan changed = plan;
  change(changed);
  if (*rc::gen::arbitrary<bool>() && !illegal(changed, shape_of(model))) plan = changed;
}

// What is outside the space.
void add_knobs(Plan& plan, const ModelConfig& model) {
  const auto try_it = [&](const auto& change) { change_if_legal(plan, model, change); };
  try_it([](Plan& p) { p.parallel.ring = std::max(1, p.parallel.cp / 2); });
  try_it([](Plan& p) { p.parallel.ring = p.parallel.cp; });
  for (const Gather gather :
       {Gather::in_tiles(2), Gather::in_tiles(4), Gather::of_layers(2), Gather::kOwned})
    try_it([gather](Plan& p) { p.gather = gather; });
  try_it([](Plan& p) { p.parallel.shards = std::max(1, p.replicas() / 2); });
  try_it([](Plan& p) { p.parameter_shards = p.shards() / 2; });
  try_it([](Plan& p) { p.secondary = p.shards_of_parameters() / 2; });
  try_it([](Plan& p) { p.parallel.ep = 2; });
  try_it([](Plan& p) { p.capacity_factor = 1.5; });
  try_it([](Plan& p) { p.expert_imbalance = 1.25; });
  try_it([](Plan& p) { p.delayed_update = true; });
  try_it([](Plan& p) { p.placement.optimizer_near = *rc::gen::element(0.3, 0.5, 1.0); });
  try_it([](Plan& p) { p.placement.params_near = *rc::gen::element(0.3, 0.5, 0.99); });
  try_it([](Plan& p) { p.placement.grads_near = *rc::gen::element(0.3, 0.5, 0.99); });
  for (const Schedule schedule :
       {Schedule::kDoubleBuffered, Schedule::kWeightStashing, Schedule::kDualPipe})
    try_it([schedule](Plan& p) {
      p.schedule = schedule;
      p.clip = false;
    });
  try_it([](Plan& p) {
    p.recompute = {{Recompute::kFull}};
    p.checkpoint_layers = *rc::gen::element(2, 3, 4);
  });
  try_it([](Plan& p) {
    p.overlap.optimizer = true;
    p.clip = false;
  });
  try_it([](Plan& p) { p.recompute = {{Recompute::kFull, 1}, {Recompute::kNone, 0}}; });
  try_it([&](Plan& p) {
    p.stage_layers.assign(static_cast<std::size_t>(p.parallel.pp), 1);
    p.stage_layers.front() += static_cast<std::int32_t>(model.layers) - p.parallel.pp;
  });
}

// What changes kernels, or the order of passes.
void add_pins(Plan& plan, const ModelConfig& model) {
  const auto try_it = [&](const auto& change) { change_if_legal(plan, model, change); };
  try_it([](Plan& p) {
    p.schedule = *rc::gen::element(Schedule::kInterleaved, Schedule::kZeroBubbleV,
                                   Schedule::kZeroBubbleH1, Schedule::kDualPipeV);
    p.parallel.chunks = 2;
  });
  try_it([](Plan& p) {
    const OperatorSet some{LayerOperator::kNorm, LayerOperator::kQkv, LayerOperator::kActivation};
    p.recompute = {{Recompute::kOperators, 0, some}};
  });
  try_it([](Plan& p) { p.overlap.exchange = true; });
  try_it([](Plan& p) { p.overlap.weight_gradients = true; });
  try_it([](Plan& p) { p.overlap.shared_expert = false; });
  try_it([](Plan& p) { p.head_chunks = 2; });
  try_it([](Plan& p) { p.offload.master = p.offload.moment1 = true; });
  try_it([](Plan& p) { p.dropout = true; });
  try_it([](Plan& p) {
    p.optimizer.kind = *rc::gen::element(OptimizerKind::kSgd, OptimizerKind::kSgdMomentum,
                                         OptimizerKind::kAdamW8Bit, OptimizerKind::kMuon,
                                         OptimizerKind::kAdafactor);
    if (p.optimizer.kind == OptimizerKind::kAdamW8Bit) p.optimizer.block = 8;
  });
  try_it([](Plan& p) { p.train.what = *rc::gen::element(Trained::kLayers, Trained::kLora); });
  try_it([](Plan& p) {
    p.train.targets =
        *rc::gen::element(LoraTargets::kAttention, LoraTargets::kMlp, LoraTargets::kQkv);
  });
  try_it([](Plan& p) {
    p.train.base = *rc::gen::element(BaseType::kF32, BaseType::kNf4, BaseType::kNf4Double);
  });
  try_it([](Plan& p) { p.train.saved = LoraSaved::kBoth; });
}

Plan draw_bytes_plan(const ModelConfig& model, const Cluster& cluster) {
  Plan plan = draw_plan(model, cluster);
  add_knobs(plan, model);
  add_pins(plan, model);
  return plan;
}

RC_GTEST_PROP(SearchProperty, BytesBoundsStayBelowThePlacedSlabs, ()) {
  const ModelConfig model = *rc::gen::arbitrary<bool>() ? draw_model() : draw_llama();
  const Cluster cluster = load_cluster(draw_cluster());
  const Plan plan = draw_bytes_plan(model, cluster);
  RC_TAG(name(family_of(plan)));
  RC_LOG(to_json(plan));
  Job job = lower(plan, model);
  place(job, {.slack = 0});
  const std::vector<TierBytes> bound = bytes_bound(plan, model);
  RC_ASSERT(bound.size() == job.classes.size());
  for (std::size_t stage = 0; stage < bound.size(); ++stage)
    for (std::size_t tier = 0; tier < kTierCount; ++tier)
      RC_ASSERT(bound[stage][tier].value <= job.classes[stage].placement.slab[tier].value);
}

// What is remembered of one plan is of another only where both declare the same.
RC_GTEST_PROP(SearchProperty, BytesBoundsDoNotDependOnThePlansBefore, ()) {
  const ModelConfig model = *rc::gen::arbitrary<bool>() ? draw_model() : draw_llama();
  const Cluster cluster = load_cluster(draw_cluster());
  BytesBounds bounds(model);
  for (int i = 0; i < 4; ++i) {
    const Plan plan = draw_bytes_plan(model, cluster);
    RC_ASSERT(bounds.of(plan, in_flight_of_stages(plan)) == bytes_bound(plan, model));
  }
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
  const Evaluator evaluator = make_evaluator(model, cluster);
  constexpr double kRoundoff = 1e-9;
  const Fit fit = evaluator.fit(plan);
  RC_CLASSIFY(!fit.infeasible && fit.bound > bound, "waits count");
  Job unordered = lower_unordered(plan, model);
  TimeFloors floors(model, cluster);
  const JobBound parts = bound_of_job(plan, unordered, cluster, floors, in_flight_of_stages(plan));
  RC_LOG() << to_json(plan) << "period " << period.value << ", work " << parts.work.seconds.value
           << ", floor " << parts.floor.value << ", turns " << parts.with_turns.value << ", path "
           << parts.longest_path.value << ", through " << parts.through_stages.value << ", shared "
           << evaluator.shared_work(plan).value << '\n';
  RC_ASSERT(fit.bound <= period * (1 + kRoundoff));
  RC_ASSERT(parts.through_stages <= period * (1 + kRoundoff));
  RC_CLASSIFY(parts.through_stages > std::max(parts.with_turns, parts.longest_path),
              "the walk through a stage and those before it is the greatest");
  RC_ASSERT(evaluator.shared_work(plan) <= period * (1 + kRoundoff));
  RC_ASSERT(evaluator.traffic(plan) <= period * (1 + kRoundoff));
  // What holds for all homes, or for one, and all depths is found with the deepest.
  Plan deepest = plan;
  deepest.prefetch = std::max(plan.prefetch, kMostPrefetch);
  if (!illegal(deepest, shape_of(model))) {
    RC_LOG() << "deepest " << evaluator.bound_of_depths(deepest).value << ", "
             << evaluator.shared_work(deepest).value << '\n';
    RC_ASSERT(evaluator.shared_work(deepest) <= period * (1 + kRoundoff));
    RC_ASSERT(evaluator.bound_of_depths(deepest) <= period * (1 + kRoundoff));
  }
  double terms = 0;
  for (const FloorTerm& one : TimeFloors(model, cluster).terms(plan, in_flight_of_stages(plan)))
    terms += one.time.value;
  RC_ASSERT(std::abs(floor.value - terms) <= 1e-5 * terms);
  // The floor is a part of the compute lane; over several stages, or where ranks that work on a
  // layer together wait for each other, it is not.
  const Parallel& shape = plan.parallel;
  if (shape.pp == 1 && shape.tp * shape.cp * shape.ep == 1) RC_ASSERT(floor <= bound * (1 + 1e-9));
}

RC_GTEST_PROP(SearchProperty, TimeBoundsStayBelowTheSimulatedPeriod, ()) {
  const ModelConfig model = *rc::gen::arbitrary<bool>() ? draw_model() : draw_llama();
  const Cluster cluster = load_cluster(draw_cluster());
  Plan plan = draw_plan(model, cluster);
  add_knobs(plan, model);
  check_time_bounds(plan, model, cluster);
}

RC_GTEST_PROP(SearchProperty, TimeBoundsStayBelowTheSimulatedPeriodOfPins, ()) {
  const ModelConfig model = *rc::gen::arbitrary<bool>() ? draw_model() : draw_llama();
  const Cluster cluster = load_cluster(draw_cluster());
  Plan plan = draw_plan(model, cluster);
  add_pins(plan, model);
  add_knobs(plan, model);
  check_time_bounds(plan, model, cluster);
}

// What is remembered of one plan is of another only where both run the same kernels.
RC_GTEST_PROP(SearchProperty, FloorsDoNotDependOnThePlansBefore, ()) {
  const ModelConfig model = *rc::gen::arbitrary<bool>() ? draw_model() : draw_llama();
  const Cluster cluster = load_cluster(draw_cluster());
  TimeFloors floors(model, cluster);
  for (int i = 0; i < 4; ++i) {
    Plan plan = draw_plan(model, cluster);
    add_pins(plan, model);
    add_knobs(plan, model);
    const Seconds alone = time_floor(plan, model, cluster);
    RC_ASSERT(floors.of(plan, in_flight_of_stages(plan)) == alone);
  }
}

// Where neither launches nor links take time, nothing covers a bound that is too great.
RC_GTEST_PROP(SearchProperty, TimeBoundsStayBelowThePeriodOfKernelsAlone, ()) {
  const ModelConfig model = draw_wide_model();
  const Cluster cluster = kernels_alone(load_cluster(draw_cluster()));
  check_time_bounds(draw_plan(model, cluster), model, cluster);
}

// Where only kernels and what they wait for take time: collectives of the ranks that work on a
// layer together, which are slow here.
RC_GTEST_PROP(SearchProperty, TimeBoundsStayBelowThePeriodOfKernelsThatWait, ()) {
  // Deep, with small ends, which wait for sums that the floor leaves out.
  ModelConfig model = *rc::gen::arbitrary<bool>() ? draw_wide_model() : draw_llama();
  model.layers *= 8;
  model.vocab = 16;
  Cluster cluster = kernels_alone(load_cluster(draw_cluster()));
  cluster.node.topology.gpu_peer = LinkClass{{*rc::gen::element(1e9, 1e10, 1e11)}, 1.0};
  cluster.node.topology.nic = {{*rc::gen::element(1e9, 1e10)}, 1.0};
  cluster.node.device.collectives = nullptr;  // links alone say how long they take
  Plan plan = draw_waiting_plan(model, cluster);
  change_if_legal(plan, model, [](Plan& p) { p.overlap.exchange = true; });
  change_if_legal(plan, model, [](Plan& p) { p.overlap.weight_gradients = true; });
  add_knobs(plan, model);
  check_time_bounds(plan, model, cluster);
}

// ---- monotony ----------------------------------------------------------------------------------

Bytes persistent_states(const Job& job, Bytes& padding) {
  Bytes sum{0};
  for (const RankClass& c : job.classes)
    for (const Buffer& buffer : c.program.buffers) {
      const bool state = buffer.category == Category::kParameters ||
                         buffer.category == Category::kGradients ||
                         buffer.category == Category::kOptimizer;
      if (!state || !buffer.persistent) continue;
      sum += buffer.size();
      padding += kIoAlignment * buffer.slots;  // a shard's, to the alignment of its tier at most
    }
  return sum;
}

RC_GTEST_PROP(SearchProperty, PersistentBytesFallAsTheZeroStageRises, ()) {
  const ModelConfig model = draw_model();
  const Cluster cluster = load_cluster("dgx2x3");
  Plan plan = draw_plan(model, cluster);
  plan.placement = {};
  std::optional<Bytes> before;
  for (plan.zero_stage = 0; plan.zero_stage <= 3; ++plan.zero_stage) {
    if (illegal(plan, shape_of(model))) continue;
    Bytes padding{0};
    const Bytes own = persistent_states(lower(plan, model), padding);
    if (before) RC_ASSERT(own <= *before + padding);
    before = own;
  }
}

// What fits in less memory fits in more. What is tuned outside the space has no such promise: with
// more memory another plan may win and have less to gain.
RC_GTEST_PROP(SearchProperty, WithMoreMemoryNoPlanOfTheSpaceIsFasterThanTheGapSays, ()) {
  if (*rc::gen::inRange<std::size_t>(0, testing_support::one_in(31)) != 0) return;
  ModelConfig model = draw_model();
  model.hidden = model.heads * 128;
  model.ffn = 4 * model.hidden;
  Cluster cluster = load_cluster("dgx2");
  Pins pins;
  pins.set("/batch/global_batch", 4);
  pins.set("/parallel/dp", *rc::gen::element(1, 2, 4));
  pins.set("/parallel/tp", *rc::gen::element(1, model.heads >= 2 ? 2 : 1));
  pins.set("/parallel/pp", 1);
  const auto found = [&](std::int64_t mebibytes) {
    const DeviceProfile& device = cluster.node.device;
    cluster.node.device.memory = device.reserve() + reserve_margin(device) + Bytes{mebibytes << 20};
    return search(model, cluster, pins, make_evaluator(model, cluster), {.variants = true});
  };
  const auto small = *rc::gen::inRange<std::int64_t>(40, 400);
  const auto more = *rc::gen::inRange<std::int64_t>(1, 400);
  const SearchResult tight = found(small), roomy = found(small + more);
  if (!tight.best) return;
  RC_ASSERT(roomy.best.has_value());
  const Candidate& fastest = roomy.fastest ? *roomy.fastest : *roomy.best;
  for (const Simulated& one : tight.simulated) {
    if (!outside_space(one.plan, pins).empty()) continue;
    RC_ASSERT(fastest.step->value * (1 - roomy.stats.gap) <=
              one.step.value * (1 + kSimulationTolerance));
  }
}

}  // namespace
}  // namespace zplan
