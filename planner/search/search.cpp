#include "planner/search/search.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <span>

#include "planner/search/group_floors.h"
#include "planner/search/knobs.h"
#include "planner/search/leaf.h"
#include "planner/search/nearer_homes.h"
#include "planner/search/open_families.h"
#include "planner/search/open_plans.h"
#include "planner/search/ranking.h"
#include "planner/search/rejections.h"
#include "planner/search/siblings.h"
#include "planner/search/variants.h"
#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

// Leaves that climb together. Fixed, so that the answer is the same for any number of threads.
constexpr std::size_t kFitWave = 32;
constexpr std::size_t kSimulationWave = 4;
// The same of simpler plans, of which often the first will do.
constexpr std::size_t kSimplerFitWave = 8;
constexpr std::size_t kSimplerSimulationWave = 2;
// Of the simulations allowed one in so many is kept for simpler plans.
constexpr std::int64_t kSimplerShare = 6;
// Of the operations that a pass may spend leaves take one part in so many where variants count.
constexpr std::int64_t kLeavesShare = 2;
// One part in so many is there for tuning, however many the leaves have taken, and for variants,
// however many these two have.
constexpr std::int64_t kTuningShare = 2;
constexpr std::int64_t kVariantsShare = 4;
// Plans besides the two found whose kept tensors get other homes, and how much slower than the
// fastest they may be. [Korthikanti22 sec 5] full recomputation takes a third more at the most.
constexpr std::size_t kCloseLosers = 2;
constexpr double kMostOfHomes = 4.0 / 3;
// Shapes of ranks that get other pipeline schedules.
constexpr std::size_t kPromisingPipelines = 6;

// What is spent on simulations.
struct Effort {
  std::int64_t simulations = 0, operations = 0;
  bool reaches(const Effort& most) const {
    return simulations >= most.simulations && operations >= most.operations;
  }
  Effort operator+(const Effort& more) const {
    return {simulations + more.simulations, operations + more.operations};
  }
  Effort operator-(const Effort& less) const {
    return {simulations - less.simulations, operations - less.operations};
  }
  Effort operator/(std::int64_t parts) const { return {simulations / parts, operations / parts}; }
};

class Search {
 public:
  Search(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
         const Evaluator& evaluator, const SearchOptions& options)
      : model_(model),
        cluster_(cluster),
        pins_(pins),
        exact_(evaluator),
        begun_(operations(evaluator)),
        evaluator_(with_free_knobs(evaluator, model, pins)),
        options_(options),
        pool_(options.threads),
        leaves_(make_leaves(enumerate(model, cluster, pins))),
        siblings_(leaves_),
        ranking_(exact_),
        variants_(model, cluster, pins),
        open_(variants_, exact_) {
    slack_ = leaves_.front().candidate.plan.slack;
    stats_.space = options.variants ? count_variants() : static_cast<std::int64_t>(leaves_.size());
  }

  SearchResult run() {
    enter(siblings_.closest());
    for (const std::vector<Effort> all = passes(); const Effort& one : all) {
      pass(one);
      if (all.size() > 1) end_ = allowed();
    }
    if (options_.exhaustive) try_everything();
    SearchResult result;
    if (!ranking_.empty()) {
      settle_both();
      if (options_.variants) stats_.cuts = cuts();
      stats_.gap = gap();
      answer(result);
    }
    explain(result);
    for (const Leaf& leaf : leaves_) stats_.set_aside += leaf.set_aside ? 1 : 0;
    result.stats = stats_;
    return result;
  }

 private:
  using Wave = std::vector<std::size_t>;

  std::int64_t count_variants() const {
    std::int64_t count = 0;
    for (std::size_t begin = 0; begin < leaves_.size(); begin = siblings_.end_of_group(begin))
      count += variants_of_group(begin);
    return count;
  }

  std::int64_t variants_of_group(std::size_t begin) const {
    std::int64_t count = 0;
    std::array<std::int64_t, 2> of_leaf{};  // by whether it has rings
    for (std::size_t i = begin; i < siblings_.end_of_group(begin); ++i) {
      const Plan& plan = leaves_[i].candidate.plan;
      std::int64_t& own = of_leaf[has_rings(plan) ? 1 : 0];
      if (own == 0)
        own = static_cast<std::int64_t>(variants_.of(plan).size() * variants_.depths(plan).size());
      count += own;
    }
    return count;
  }

  static std::vector<Leaf> make_leaves(std::vector<Plan> plans) {
    std::vector<Leaf> leaves(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      leaves[i].candidate.plan = std::move(plans[i]);
      leaves[i].place = i;
    }
    return leaves;
  }

  // Each goes on where the one before it ended and may do twice as much. The last one ends where
  // all is spent, so that a search which may do more does first what one that may do less does.
  std::vector<Effort> passes() {
    const Effort all = allowed();
    if (options_.exhaustive && options_.first_operations <= 0) return {};
    Effort next{all.simulations, options_.first_operations};
    if (options_.exhaustive) return {next};
    if (next.operations <= 0 || all.operations <= next.operations) return {all};
    std::vector<Effort> passes{next};
    for (; next.operations < all.operations; passes.push_back(next)) next.operations *= 2;
    return passes;
  }

  void pass(const Effort& all) {
    const std::int64_t begun = spent().operations;
    const std::int64_t more = std::max<std::int64_t>(0, all.operations - begun);
    const std::int64_t of_leaves = begun + more / (options_.variants ? kLeavesShare : 1);
    climb({all.simulations, of_leaves});
    if (ranking_.empty()) return;
    if (all.operations > 0)
      tuning_end_ = std::max(of_leaves, spent().operations) + more / kTuningShare;
    tune_both();
    if (!options_.variants) return;
    try_variants(allowed_for_variants(all, more));
    if (is_hopeless()) return;
    for (const Leaf* leaf : {&ranking_.fastest(), &ranking_.recommended()}) turn_schedules(*leaf);
  }

  // First all that could be the fastest, then all that could be recommended in its place.
  void climb(const Effort& all) {
    const Effort of_simpler = (all - spent()) / kSimplerShare;
    climb(all - of_simpler, [this] { return fastest_wave(); });
    most_ = spent() + of_simpler;
    proven_ = fastest_wave().empty();
    seek_simpler();
  }

  void seek_simpler() {
    if (ranking_.empty() || is_hopeless()) return;
    // A misfit brings its siblings in: where the fastest was proven, it has to be against them,
    // too.
    climb(most_, [this] {
      const Wave wave = proven_ ? fastest_wave() : Wave{};
      return wave.empty() ? simpler_wave() : wave;
    });
  }

  Effort allowed() const {
    return {std::max<std::int64_t>(1, options_.max_simulated), options_.min_operations};
  }
  // However much the leaves have taken: operations, of which a number of simulations says nothing.
  Effort allowed_for_variants(const Effort& all, std::int64_t more) const {
    constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
    if (!is_limited()) return {kAll, kAll};
    return {0, std::max(all.operations, spent().operations + more / kVariantsShare)};
  }
  bool is_limited() const { return options_.max_simulated < SearchOptions{}.max_simulated; }
  Effort spent() const { return {stats_.simulated, operations(exact_) - begun_}; }
  static std::int64_t operations(const Evaluator& of) {
    return of.operations ? of.operations() : 0;
  }

  template <typename NextWave>
  void climb(const Effort& most, NextWave next_wave) {
    while (!spent().reaches(most) && !stopped()) {
      const Wave wave = next_wave();
      if (wave.empty()) break;
      for (const std::size_t i : wave) queue_.erase({leaves_[i].candidate.bound.value, i});
      raise(wave);
      for (const std::size_t i : wave) {
        const Leaf& leaf = leaves_[i];
        if (leaf.out()) enter(siblings_.after_misfit(leaves_, i));
        if (!leaf.out() && leaf.rung == Rung::kFitted) siblings_.set_others_aside(leaves_, i);
        enqueue(i);
      }
    }
  }

  // Leaves whose turn has come. For one that cannot fit the next ones do.
  void enter(Wave leaves) {
    while (!leaves.empty()) {
      pool_.for_each(leaves.size(),
                     [&](std::size_t w) { estimate(leaves_[leaves[w]], evaluator_); });
      Wave more;
      for (const std::size_t i : leaves) {
        enqueue(i);
        if (!leaves_[i].out()) continue;
        const Wave next = siblings_.after_misfit(leaves_, i);
        more.insert(more.end(), next.begin(), next.end());
      }
      leaves = std::move(more);
    }
  }

  // Proof that the bounds cut nothing off: everything is lowered, all that fits is simulated.
  void try_everything() {
    constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
    all_count_ = true;
    tuning_end_.reset();
    for (const Rung rung : {Rung::kEnumerated, Rung::kEstimated, Rung::kWeighed, Rung::kFitted})
      raise_all(rung);
    if (ranking_.empty()) return;
    tune_both();
    if (options_.variants) try_variants({kAll, kAll});
  }
  void raise_all(Rung from) {
    Wave all;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].rung == from && (from != Rung::kFitted || !leaves_[i].out())) all.push_back(i);
    if (from != Rung::kEnumerated) return raise(all);
    pool_.for_each(all.size(), [&](std::size_t i) { estimate(leaves_[all[i]], evaluator_); });
  }

  void enqueue(std::size_t i) {
    if (!leaves_[i].out() && leaves_[i].rung != Rung::kSimulated)
      queue_.emplace(leaves_[i].candidate.bound.value, i);
  }

  // The leaves with the least bounds that stand on one rung, of those that could be the fastest.
  // Every second simulation is of a plain plan, as long as there is one: bounds of others are
  // farther below their times, and would have all of the turns.
  Wave fastest_wave() const {
    if (2 * plain_simulated_ < stats_.simulated) {
      const Wave wave = wave_of([this](std::size_t i) { return plain(i); });
      if (!wave.empty()) return wave;
    }
    return wave_of([](std::size_t) { return true; });
  }

  bool plain(std::size_t i) const { return is_plain(simplicity_of(leaves_[i].candidate.plan)); }

  template <typename Wanted>
  Wave wave_of(Wanted wanted) const {
    Wave wave;
    for (const auto& [bound, i] : queue_) {
      if (!ranking_.empty() && bound > std::min(ranking_.fastest().value(), options_.below).value)
        break;
      if (wanted(i) && !add_to(wave, i, kFitWave, kSimulationWave)) break;
    }
    return wave;
  }

  // Those that could be recommended in place of the present plan: first the plainer versions of the
  // fastest plan, the simplest first; then the others, the least bounds first.
  Wave simpler_wave() const {
    std::vector<std::pair<TieKey, std::size_t>> versions;
    Wave others;
    const TieKey present = tie_key(ranking_.recommended());
    for (const auto& [bound, i] : queue_) {
      if (bound > ranking_.limit().value) break;
      if (bound > ranking_.limit_of(leaves_[i].candidate.plan).value) continue;
      const TieKey key = tie_key(leaves_[i]);
      if (key >= present || (is_limited() && simplicity(key) == simplicity(present))) continue;
      if (same_size(leaves_[i].candidate.plan, ranking_.fastest().candidate.plan)) {
        versions.emplace_back(key, i);
      } else {
        others.push_back(i);
      }
    }
    std::sort(versions.begin(), versions.end());
    Wave wave;
    for (const auto& [key, i] : versions)
      if (!add_to(wave, i, kSimplerFitWave, kSimplerSimulationWave)) break;
    if (!wave.empty()) return wave;
    for (const std::size_t i : others)
      if (!add_to(wave, i, kSimplerFitWave, kSimplerSimulationWave)) break;
    return wave;
  }

  static const Simplicity& simplicity(const TieKey& key) { return std::get<Simplicity>(key); }

  // Whether two plans have the same ranks work on the same micro-batches.
  static bool same_size(const Plan& a, const Plan& b) {
    const Parallel &x = a.parallel, &y = b.parallel;
    return x.dp == y.dp && x.tp == y.tp && x.pp == y.pp && a.batch == b.batch &&
           a.precision == b.precision;
  }

  // Whether there was room for the leaf among others of its rung.
  bool add_to(Wave& wave, std::size_t i, std::size_t most_fits,
              std::size_t most_simulations) const {
    const bool fitted = leaves_[i].rung == Rung::kFitted;
    if (!wave.empty() && (leaves_[wave.front()].rung == Rung::kFitted) != fitted) return false;
    // What the first simulation finds may spare those after it.
    const std::size_t most = !fitted ? most_fits : ranking_.empty() ? 1 : most_simulations;
    if (wave.size() == most) return false;
    wave.push_back(i);
    return true;
  }

  void raise(const Wave& wave) {
    if (wave.empty()) return;
    const bool fitted = leaves_[wave.front()].rung == Rung::kFitted;
    pool_.for_each(wave.size(), [&](std::size_t w) {
      Leaf& leaf = leaves_[wave[w]];
      fitted ? simulate(leaf, evaluator_) : weigh_or_fit(leaf);
    });
    (fitted ? stats_.simulated : stats_.visited) += new_of(wave);
    if (fitted) rank(wave);
    if (options_.progress) options_.progress(stats_);
  }

  // A leaf whose bound rises with what it sends waits for its turn again.
  void weigh_or_fit(Leaf& leaf) const {
    const Seconds estimated = leaf.candidate.bound;
    if (leaf.rung == Rung::kEstimated && !all_count_) weigh(leaf, evaluator_);
    if (leaf.candidate.bound <= estimated) fit(leaf, evaluator_);
  }

  // Counts leaves that were fitted or simulated, but for those known as variants of others.
  std::int64_t new_of(const Wave& wave) const {
    return std::ranges::count_if(wave, [this](std::size_t i) {
      return leaves_[i].rung >= Rung::kFitted && !ranking_.has(leaves_[i].candidate.plan);
    });
  }

  void rank(const std::vector<OpenPlan*>& risen) {
    std::vector<const Leaf*> simulated;
    for (const OpenPlan* const open : risen) {
      if (!open->leaf.candidate.step) continue;
      ++stats_.simulated;
      Leaf& leaf = tuned_.emplace_back(open->leaf);
      leaf.place = leaves_.size() + tuned_.size() - 1;
      simulated.push_back(&leaf);
    }
    ranking_.add(simulated);
  }

  void rank(const Wave& simulated) {
    std::vector<const Leaf*> leaves;
    for (const std::size_t i : simulated) {
      leaves.push_back(&leaves_[i]);
      plain_simulated_ += plain(i) ? 1 : 0;
    }
    ranking_.add(leaves);
  }

  double gap() const {
    const double fastest = ranking_.fastest().value().value;
    double least = fastest;
    for (const Leaf& leaf : leaves_)
      if (leaf.rung > Rung::kEnumerated && !leaf.out() && !leaf.candidate.step)
        least = std::min(least, leaf.candidate.bound.value);
    if (options_.variants) least = std::min(fastest, least_of_variants().value);
    for (const Leaf* leaf : ranking_.leaves())
      if (!leaf->is_exact)
        least = std::min(least, leaf->value().value * (1 - kSimulationTolerance));
    return fastest > 0 ? (fastest - least) / fastest : 0;
  }

  // Not before there is a plan to answer with.
  bool stopped() {
    if (ranking_.empty()) return false;
    if (end_ && spent().reaches(*end_)) return true;
    stats_.stopped = stats_.stopped || (options_.stop && options_.stop());
    return stats_.stopped;
  }

  // What is open of the groups entered, and the floors of the others.
  Seconds least_of_variants() const {
    Seconds least = open_.least().value_or(ranking_.fastest().value());
    for (const auto& [floor, begin] : closed_groups_) least = std::min(least, floor);
    return least;
  }

  Cuts cuts() const {
    const Seconds limit = limit_of_variants();
    Cuts cuts = open_.cuts(limit);
    for (const auto& [floor, begin] : closed_groups_)
      if (floor < limit) cuts.open += variants_of_group(begin);
    cuts.simulated = stats_.simulated;
    cuts.with_group = stats_.space - cuts.shared - cuts.bytes - cuts.floor - cuts.placement -
                      cuts.bound - cuts.simulated - cuts.open;
    return cuts;
  }

  // The groups of leaves whose floor is below the limit, with all their variants, are tried in
  // order of their bounds.
  void try_variants(const Effort& most) {
    find_groups();
    while (!spent().reaches(most) && !stopped()) {
      const Seconds limit = limit_of_variants();
      enter_groups(limit);
      const std::vector<OpenPlan*> wave = open_.next(limit, kFitWave, kSimulationWave);
      if (wave.empty()) break;
      stats_.visited += std::ranges::count_if(wave, [](const OpenPlan* p) { return !p->has_job; });
      pool_.for_each(wave.size(), [&](std::size_t w) { open_.raise(*wave[w]); });
      rank(wave);
      open_.put_back(wave, limit, [this](const Plan& plan) { return ranking_.has(plan); });
      if (options_.progress) options_.progress(stats_);
    }
    enter_groups(limit_of_variants());
  }

  // What is not below it is not tried.
  Seconds limit_of_variants() const {
    if (all_count_) return Seconds{std::numeric_limits<double>::infinity()};
    return std::min(ranking_.fastest().value() * (1 - kProvenGap), options_.below);
  }

  // As it was enumerated, but for the prefetch and the tiles that it fits with.
  Plan with_slack(Plan plan) const {
    plan.slack = slack_;
    return plan;
  }

  // Before anything was left out for it to fit.
  Plan as_enumerated(const Leaf& leaf) const {
    Plan plan = with_slack(leaf.candidate.plan);
    if (pins_.tunes_units && !plan.gather.by_layer()) plan.gather = Gather::kOperator;
    return plan;
  }

  void find_groups() {
    if (has_groups_) return;
    has_groups_ = true;
    std::vector<std::size_t> begins;
    for (std::size_t begin = 0; begin < leaves_.size(); begin = siblings_.end_of_group(begin))
      begins.push_back(begin);
    std::vector<std::optional<Seconds>> floors(begins.size());
    pool_.for_each(begins.size(), [&](std::size_t g) { floors[g] = floor_of_group(begins[g]); });
    for (std::size_t g = 0; g < begins.size(); ++g)
      if (floors[g]) closed_groups_.emplace(*floors[g], begins[g]);
  }

  std::optional<Seconds> floor_of_group(std::size_t begin) const {
    const std::span<const Leaf> leaves(&leaves_[begin], siblings_.end_of_group(begin) - begin);
    return GroupFloors(variants_, exact_).of(leaves, [this](const Leaf& leaf) {
      return as_enumerated(leaf);
    });
  }

  void enter_groups(Seconds limit) {
    while (!closed_groups_.empty() && closed_groups_.begin()->first < limit) {
      const std::size_t begin = closed_groups_.begin()->second;
      closed_groups_.erase(closed_groups_.begin());
      std::vector<Plan> homes;
      for (std::size_t i = begin; i < siblings_.end_of_group(begin); ++i)
        homes.push_back(with_slack(leaves_[i].candidate.plan));
      open_.add(homes);
    }
  }

  // The times that are answered are exact, whichever plans these are then.
  void settle_both() {
    std::set<std::size_t> settled;
    while (true) {
      Wave open;
      for (const Leaf* leaf : {&ranking_.fastest(), &ranking_.recommended()})
        if (settled.insert(leaf->place).second) open.push_back(leaf->place);
      if (open.empty()) return;
      pool_.for_each(open.size(), [&](std::size_t i) {
        settle(open[i] < leaves_.size() ? leaves_[open[i]] : tuned_[open[i] - leaves_.size()],
               exact_);
      });
      ranking_.add({});
    }
  }

  // Returns whether no variation can make the fastest plan one that matters.
  bool is_hopeless() const { return ranking_.fastest().value() > options_.below * kMostOfHomes; }

  // Outside the proof: variations of the fastest plan, and of the one that is recommended.
  void tune_both() {
    if (is_hopeless()) return;
    const Leaf& fastest = ranking_.fastest();
    const Leaf& recommended = ranking_.recommended();
    for (const Leaf* leaf : {&fastest, &recommended})
      tune_once(*leaf, [this](const Leaf& from) { tune(from); });
    for (const Leaf* leaf : close_losers(fastest, recommended))
      tune_once(*leaf, [this](const Leaf& from) { turn(other_homes(from), &from); });
    const std::vector<Leaf> roomy = roomy_by_context(fastest);
    for (const Leaf& leaf : roomy)
      tune_once(leaf, [this](const Leaf& from) { turn(other_homes(from), &ranking_.fastest()); });
    const std::vector<Leaf> pipelines = promising_pipelines();
    for (const Leaf& leaf : pipelines) turn_schedules(leaf);
    if (!roomy.empty() || !pipelines.empty())
      tune_once(ranking_.fastest(), [this](const Leaf& from) { tune(from); });
    seek_simpler();  // than what they have led to
  }

  // Of each number of context parallel ranks: of the fully recomputed plans on the GPU that are
  // about as fast as any of them, the one that leaves most room. Long sequences fit such plans with
  // full recomputation alone, which loses where other homes of what is kept for backward would win.
  // None where neither these nor the fastest plan have such ranks.
  std::vector<Leaf> roomy_by_context(const Leaf& fastest) {
    std::map<std::int32_t, std::vector<Leaf>> by_context;
    if (!exact_.homes) return {};
    for (const Leaf& leaf : leaves_) {
      const Plan& plan = leaf.candidate.plan;
      if (plan.parallel.cp == 1 && fastest.candidate.plan.parallel.cp == 1) continue;
      if (plan.all_full() && plan.placement == StatePlacement{})
        by_context[plan.parallel.cp].push_back(leaf);
    }
    std::vector<Leaf> roomy;
    for (auto& [cp, leaves] : by_context)
      if (const Leaf* const leaf = most_roomy(leaves)) roomy.push_back(*leaf);
    return roomy;
  }

  // Null: none fits, or none can be made the fastest.
  const Leaf* most_roomy(std::vector<Leaf>& leaves) {
    pool_.for_each(leaves.size(), [&](std::size_t i) {
      if (leaves[i].rung == Rung::kEnumerated) estimate(leaves[i], evaluator_);
    });
    std::erase_if(leaves, [](const Leaf& leaf) { return leaf.out(); });
    std::ranges::stable_sort(leaves, {}, &Leaf::value);
    if (leaves.empty() || leaves.front().value() > ranking_.fastest().value() * kMostOfHomes)
      return nullptr;
    const Seconds limit = leaves.front().value() * (1 + kTieTolerance);
    std::erase_if(leaves, [&](const Leaf& leaf) { return leaf.value() > limit; });
    leaves.resize(std::min(leaves.size(), kFitWave));
    pool_.for_each(leaves.size(), [&](std::size_t i) {
      if (leaves[i].rung < Rung::kFitted) fit(leaves[i], evaluator_);
    });
    std::erase_if(leaves, [](const Leaf& leaf) { return leaf.out(); });
    const auto roomiest = std::ranges::min_element(leaves, {}, &Leaf::gpu);
    return roomiest == leaves.end() ? nullptr : &*roomiest;
  }

  // Chunks keep more activations, for which sequence parallelism makes room.
  void turn_schedules(const Leaf& leaf) {
    if (!scheduled_.insert(leaf.place).second) return;
    Plan plan = leaf.candidate.plan;
    std::vector<Plan> plans = with_other_schedules(plan, model_, pins_);
    if (plan.parallel.tp > 1 && !plan.parallel.sequence_parallel) {
      plan.parallel.sequence_parallel = true;
      std::ranges::move(with_other_schedules(plan, model_, pins_), std::back_inserter(plans));
    }
    turn(std::move(plans), &ranking_.fastest());
  }

  // Returns what a plan could take with as many chunks on each stage as there are layers
  // [Narayanan21 sec 2.2].
  Seconds with_most_chunks(const Leaf& leaf) const {
    const Plan& plan = leaf.candidate.plan;
    const auto steps = static_cast<double>(plan.micro_steps());
    const double others = plan.parallel.pp - 1;
    const auto layers = static_cast<double>(model_.layers) / plan.parallel.pp;
    return leaf.value() * ((steps + others / layers) / (steps + others));
  }

  // The schedule is no decision of a leaf: of each shape of ranks with a pipeline the plan on the
  // GPU that others could make the fastest, of those shapes the few that could most. None where the
  // schedule is pinned. They are copies: what is learnt of them is not of the space.
  std::vector<Leaf> promising_pipelines() {
    if (pins_.has("/parallel/schedule") || pins_.has("/parallel/chunks")) return {};
    std::vector<Leaf> open;
    for (const Leaf& leaf : leaves_) {
      const Plan& plan = leaf.candidate.plan;
      const bool is_usual = plan.zero_stage <= 1 || pins_.has("/zero_stage");
      if (plan.parallel.pp > 1 && is_usual && plan.placement == StatePlacement{})
        open.push_back(leaf);
    }
    pool_.for_each(open.size(), [&](std::size_t i) {
      if (open[i].rung == Rung::kEnumerated) estimate(open[i], evaluator_);
    });
    const auto is_slow = [this, limit = ranking_.limit()](const Leaf& leaf) {
      return leaf.out() || with_most_chunks(leaf) >= limit;
    };
    std::erase_if(open, is_slow);
    std::ranges::stable_sort(open, {}, [this](const Leaf& leaf) { return with_most_chunks(leaf); });
    std::set<std::array<std::int64_t, 5>> shapes;
    std::vector<Leaf> pipelines;
    for (Leaf& leaf : open) {
      if (pipelines.size() == kPromisingPipelines) break;
      const Parallel& cut = leaf.candidate.plan.parallel;
      const std::array<std::int64_t, 5> shape{cut.tp, cut.pp, cut.cp, cut.ep,
                                              leaf.candidate.plan.batch.micro_batch};
      if (shapes.contains(shape)) continue;
      if (leaf.rung < Rung::kFitted) fit(leaf, evaluator_);
      if (is_slow(leaf)) continue;
      shapes.insert(shape);
      pipelines.push_back(leaf);
    }
    return pipelines;
  }

  // Again, where there were not the operations for all of it.
  template <typename Tune>
  void tune_once(const Leaf& leaf, Tune tune) {
    if (tuned_from_.contains(leaf.place) || tuning_is_over()) return;
    tune(leaf);
    if (!tuning_is_over()) tuned_from_.insert(leaf.place);
  }

  bool tuning_is_over() const { return tuning_end_ && spent().operations >= *tuning_end_; }

  // The next homes farther away, then the knobs, each on the fastest plan that those before it have
  // led to.
  void tune(const Leaf& leaf) {
    const Leaf* best = &leaf;
    if (!all_count_) best = turn(farther_homes(leaf), best);
    best = settle_homes(best);
    for (const Knob& knob : free_knobs(model_, cluster_, pins_))
      best = turn(knob(best->candidate.plan), best);
    const Plan& tuned = best->candidate.plan;
    if (tuned.overlap.optimizer && !leaf.candidate.plan.overlap.optimizer) turn_nearer(best);
  }

  // What is kept for backward and states want the same room: either may take it first.
  const Leaf* settle_homes(const Leaf* leaf) {
    const Leaf* const kept = turn(other_homes(*leaf), leaf);
    const std::size_t before = tuned_.size();
    const Leaf* const states_first = turn_nearer(leaf);
    const Leaf* const some = next_to(states_first, leaf, before);
    const Leaf* const kept_first = kept == leaf ? states_first : turn_nearer(kept);
    if (states_first == leaf) return kept_first;
    const Leaf* both = turn(other_homes(*states_first), states_first);
    if (both == states_first && some != nullptr) both = turn(other_homes(*some), both);
    return both->value() < kept_first->value() ? both : kept_first;
  }
  // Of what was tuned from there on the fastest but `best`, which leaves more room, if it is faster
  // than `leaf`.
  const Leaf* next_to(const Leaf* best, const Leaf* leaf, std::size_t from) const {
    const Leaf* next = nullptr;
    for (std::size_t i = from; i < tuned_.size(); ++i) {
      const Leaf& other = tuned_[i];
      const bool is_faster =
          other.candidate.step && other.value() < (next == nullptr ? leaf : next)->value();
      if (is_faster && &other != best) next = &other;
    }
    return next;
  }
  const Leaf* turn_nearer(const Leaf* best) {
    if (tuning_is_over()) return best;
    const auto fits = [this](const Plan& plan) {
      return pins_.allows(plan) && !exact_.fit(plan).infeasible;
    };
    const auto fastest = [&](const Plan&, std::vector<Plan> others) {
      best = turn(std::move(others), best);
      return best->candidate.plan;
    };
    NearerHomes(model_, pins_, fits, fastest).tune(best->candidate.plan);
    return best;
  }

  // Where all is kept on the GPU nothing can be gained.
  static bool keeps_all(const Plan& plan) {
    const RecomputeRun& first = plan.recompute.front();
    return plan.recompute.size() == 1 && plan.effective(first.mode) == Recompute::kNone &&
           plan.placement.activations == Tier::kGpu;
  }

  std::vector<Plan> other_homes(const Leaf& leaf) const {
    const Plan& plan = leaf.candidate.plan;
    // Checkpoints that are to be cut are those of layers recomputed whole.
    const bool must_cut = pins_.has("/partition_activations") && plan.partition_activations;
    if (!exact_.homes || pins_.has("/recompute") || must_cut || keeps_all(plan)) return {};
    if (tuning_is_over()) return {};
    return exact_.homes(plan, pins_);
  }

  // Of the other plans simulated that better homes could make the fastest.
  std::vector<const Leaf*> close_losers(const Leaf& fastest, const Leaf& recommended) const {
    std::vector<const Leaf*> losers;
    if (!exact_.homes) return losers;
    const Seconds limit = ranking_.fastest().value() * kMostOfHomes;
    for (const Leaf& leaf : leaves_)
      if (leaf.candidate.step && leaf.value() < limit && &leaf != &fastest &&
          &leaf != &recommended && !keeps_all(leaf.candidate.plan))
        losers.push_back(&leaf);
    std::stable_sort(losers.begin(), losers.end(),
                     [](const Leaf* a, const Leaf* b) { return a->value() < b->value(); });
    losers.resize(std::min(losers.size(), kCloseLosers));
    return losers;
  }

  std::vector<Plan> farther_homes(const Leaf& leaf) const {
    std::vector<Plan> plans;
    if (leaf.place >= leaves_.size()) return plans;  // it is no plan of the space
    for (const std::size_t i : siblings_.next(leaf.place)) {
      const Plan& sibling = leaves_[i].candidate.plan;
      Plan& plan = plans.emplace_back(leaf.candidate.plan);
      plan.placement = sibling.placement;
      plan.partition_activations = sibling.partition_activations;
    }
    return plans;
  }

  // The fastest of `best` and the plans. Those that fit and whose bounds let them be faster by more
  // than the tolerance are simulated.
  const Leaf* turn(std::vector<Plan> plans, const Leaf* best) {
    if (stopped() || tuning_is_over()) return best;
    std::erase_if(plans, [this](const Plan& plan) { return !pins_.allows(plan); });
    const std::size_t before = tuned_.size();
    for (Plan& plan : plans) {
      Leaf& leaf = tuned_.emplace_back();
      leaf.candidate.plan = std::move(plan);
      leaf.place = leaves_.size() + tuned_.size() - 1;
    }
    const Seconds limit = best->value();
    const auto could_be_faster = [limit](const Leaf& leaf) {
      return !leaf.out() && leaf.candidate.bound * (1 + kTieTolerance) < limit;
    };
    pool_.for_each(plans.size(), [&](std::size_t i) {
      Leaf& leaf = tuned_[before + i];
      estimate(leaf, exact_);
      if (could_be_faster(leaf)) fit(leaf, exact_);
      if (leaf.rung == Rung::kFitted && could_be_faster(leaf)) simulate(leaf, exact_);
    });
    std::vector<const Leaf*> simulated;
    for (std::size_t i = before; i < tuned_.size(); ++i)
      if (tuned_[i].candidate.step) simulated.push_back(&tuned_[i]);
    for (const Leaf* leaf : simulated)
      if (leaf->value() < best->value()) best = leaf;
    std::erase_if(simulated, [this](const Leaf* l) { return ranking_.has(l->candidate.plan); });
    ranking_.add(simulated);
    return best;
  }

  void answer(SearchResult& result) const {
    for (const Leaf* leaf : ranking_.leaves())
      result.simulated.push_back({leaf->candidate.plan, leaf->value(), leaf->gpu});
    std::stable_sort(result.simulated.begin(), result.simulated.end(),
                     [](const Simulated& a, const Simulated& b) { return a.step < b.step; });
    result.best = ranking_.recommended().candidate;
    if (ranking_.fastest().value() == result.best->step) return;
    result.fastest = ranking_.fastest().candidate;
    result.wins = ranking_.wins_over(ranking_.recommended());
  }

  void explain(SearchResult& result) {
    if (ranking_.empty()) {
      Candidate& closest = result.closest.emplace(
          leaves_[closest_leaf(leaves_, evaluator_, stats_.visited)].candidate);
      closest.infeasible->smallest_change =
          smallest_change(closest.plan, model_, cluster_, evaluator_);
    }
    pool_.for_each(leaves_.size(), [&, silent = silent_families()](std::size_t i) {
      Leaf& leaf = leaves_[i];
      const bool unknown = leaf.rung == Rung::kEnumerated && !leaf.set_aside;
      if (unknown && silent.contains(family_of(leaf.candidate.plan))) estimate(leaf, evaluator_);
    });
    const OpenFamilies open = open_families();
    result.rejected = rejections(leaves_, ranking_, open);
    if (const Leaf* const least = open.least()) result.open = least->candidate;
  }

  // What the gap is of, by family.
  OpenFamilies open_families() const {
    OpenFamilies open(ranking_);
    if (!options_.variants) {
      for (const Leaf& leaf : leaves_)
        if (leaf.rung > Rung::kEnumerated && !leaf.out() && !leaf.candidate.step)
          open.add(leaf, leaf.candidate.bound);
      return open;
    }
    open_.each([&](const Leaf& leaf) { open.add(leaf, leaf.candidate.bound); });
    for (const auto& [floor, begin] : closed_groups_)
      for (std::size_t i = begin; i < siblings_.end_of_group(begin); ++i)
        if (may_fit(leaves_[i])) open.add(leaves_[i], floor);
    return open;
  }

  // The leaf, or a variant of it.
  bool may_fit(const Leaf& leaf) const {
    if (!leaf.out()) return true;
    if (leaf.candidate.infeasible->tier == Tier::kGpu) return false;
    return std::ranges::any_of(variants_.of(as_enumerated(leaf)), [&](const Plan& variant) {
      return !is_known_misfit(leaf, variant);
    });
  }

  // Those of which no plan is known that may fit: what else they have is farther away than a plan
  // that is slower.
  std::set<Family> silent_families() const {
    std::set<Family> all, known;
    for (const Leaf& leaf : leaves_) {
      const Family family = family_of(leaf.candidate.plan);
      all.insert(family);
      const bool may_fit = leaf.rung > Rung::kEnumerated && !leaf.out();
      if (may_fit || leaf.set_aside) known.insert(family);
    }
    std::erase_if(all, [&](const Family& family) { return known.contains(family); });
    return all;
  }

  const ModelConfig& model_;
  const Cluster& cluster_;
  const Pins& pins_;
  const Evaluator& exact_;
  const std::int64_t begun_;   // operations that were spent before
  const Evaluator evaluator_;  // of plans of the space
  const SearchOptions& options_;
  WorkerPool pool_;
  std::vector<Leaf> leaves_;
  Siblings siblings_;
  std::set<std::pair<double, std::size_t>> queue_;  // (bound, leaf)
  std::deque<Leaf> tuned_;                          // outside the space; stay where they are
  Ranking ranking_;
  const Variants variants_;
  OpenPlans open_;
  std::set<std::pair<Seconds, std::size_t>> closed_groups_;  // (floor, first leaf)
  bool all_count_ = false;                                   // whatever the bounds say
  bool has_groups_ = false;                                  // found once
  std::set<std::size_t> tuned_from_, scheduled_;             // places of plans
  double slack_ = 0;                                         // of all leaves, as enumerated
  bool proven_ = false;  // no leaf that was queued could be faster than the fastest
  std::int64_t plain_simulated_ = 0;
  std::optional<Effort> end_;               // of all; from the second pass on
  std::optional<std::int64_t> tuning_end_;  // operations spent by then; none: no end
  Effort most_{};                           // when simpler plans are looked for
  SearchStats stats_;
};

}  // namespace

SearchResult search(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                    const Evaluator& evaluator, const SearchOptions& options) {
  return Search(model, cluster, pins, evaluator, options).run();
}

}  // namespace zplan
