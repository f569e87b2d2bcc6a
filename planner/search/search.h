// Search: which plan of the space is recommended for a cluster, which one is the fastest, and why
// the others are neither.
//
// Every legal plan is a leaf. A leaf climbs four rungs, each dearer and sharper than the last:
//   estimate   closed-form lower bounds on its time and its bytes per tier
//   weigh      what its parameters and gradients take between ranks and tiers: a bound on its time
//              that many leaves share
//   fit        lowered and placed: the exact bytes, and a sharper bound on its time
//   simulate   its time; a bound above it is a bug
// The leaves with the least bounds climb first, in waves of fixed size, in order of (bound, place
// in the space), until none is left whose bound is below the fastest time simulated. So the result
// depends on neither the number of threads nor the machine.
//
// A leaf stands for a subtree: its variants (variants.h), which differ in knobs that change nothing
// its floor rests on, and so do leaves that differ in homes alone. Of the plans that differ only in
// where states are kept those closest to the GPU are tried first; once one fits, those farther away
// are set aside (siblings.h). Where `SearchOptions::variants` asks for it all of these count: once
// the leaves have climbed and the plans found are tuned, every variant of every leaf whose floor
// lets it be faster by more than kProvenGap is fitted, bounded and simulated in its turn
// (open_plans.h), those set aside included, as far as the budget reaches.
// gap = (fastest simulated - least bound of what is neither simulated nor proven not to fit)
//       / fastest, at least 0: by how much a plan of the space could be faster at most. With
//       variants all of them are in it, without them the leaves that were not set aside.
//
// Of the plans simulated that take at most 2 % longer than the fastest (9 % those that keep more on
// the GPU: kTierTolerance) and are not told apart from it the simplest is recommended
// (simplicity.h), then the one with least GPU memory, then the first of the space. Told apart: the
// fastest beats it in 90 of 100 samples or more. The gap speaks of the fastest.
// Simpler plans than that are looked for on purpose, by a sixth of the simulations: the plainer
// versions of the fastest, with its ranks and micro-batch, the simplest first; then the others that
// may be within these, by bound. Where simulations are not limited, also smaller ones as simple.
//
// Of a leaf that does not fit first the prefetch is left out, then it is cut into 2, 4 .. tiles,
// and the plan found is tuned, each knob on what those before it have led to: the next farther
// homes, prefetch, units, shards and order, which the space has, and what it does not have:
//   homes of what is kept for      each tensor of each layer kept, recomputed, on the CPU or NVMe
//   backward                       (homes/homes.h): tried on the two plans and on the fastest two
//                                  of the others that recompute
//   nearer parameters, gradients   the largest share that fits, or fewer layers, before or after
//   and optimizer states of        the homes of what is kept for backward (nearer_homes.h)
//   some layers
//   recompute of the first layers only, layers per checkpoint, devices of a node, stages that weigh
//   the head, updates beside backward, schedules: tried on the two plans; schedules also on a plan
//   of each of the few shapes of ranks with a pipeline that could gain most by them
// Farther homes and knobs are simulated where their bound leaves a gain of more than 2 %. What they
// lead to counts as any plan: it is recommended where nothing simpler is within 2 % of the fastest.
// Only for pins: owned layers (their transfers wait for each other where a cut layer's run side by
// side) and every decision whose row (planner/plan/choices.h) says that it is never varied. Among
// them are GPipe (never better than 1F1B in memory, nor in time), secondary shards and shards of
// parameters in groups of their own, and what changes the numbers that are trained: kernel set,
// clipping, delayed updates, and precision, of which the pins may name several recipes. Of kernel
// sets there are two where heads have no fused kernel (attention_kernels.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/place/memory_report.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"
#include "planner/program/job/job.h"

namespace zplan {

namespace sim {
struct SimResult;
}

inline constexpr double kTieTolerance = 0.02;
// The same of a plan that keeps more on the GPU than the fastest, where Evaluator::wins tells plans
// apart: two runs of the same software differ by 5 % each from what their constants say
// (certainty/knowledge.cpp, kLeastRun), which tells apart nine times of ten what is 9 % slower.
inline constexpr double kTierTolerance = 0.09;
inline constexpr int kToldApart = 90;  // worlds of 100
// A plan is called proven where no plan of the space can be faster by more than this share.
inline constexpr double kProvenGap = 0.01;
// Plans are ranked by simulated times that may be off by so much of them: a loop whose stages drift
// goes on at its pace (sim/steady_loop.h). The times of the plans answered are exact, and the gap
// takes the others by so much faster. [assumed] far below kProvenGap and kTieTolerance.
inline constexpr double kSimulationTolerance = 1e-4;

// The leaves of the space, each legal, in a fixed order: kernel sets, pipeline stages (divisors of
// the devices), tensor parallel ranks (divisors of a node), of long sequences context parallel
// ranks (the same divisors), sequence parallelism, ranks that share experts and whether others cut
// these, micro-batch, recipe, ZeRO stage, recompute (selective where scores are stored), gather
// unit (where parameters are gathered), cut checkpoints, homes of parameters, gradients, optimizer,
// activations. Unless pinned, parameters and gradients are kept no farther away than the optimizer
// states, which are the most and move least, and one replica has only the ZeRO stages that its
// homes need. Without pins all devices are used; a pinned count of ranks, dp, tp or pp, may use
// fewer. Throws Error when the pins allow none, naming the reason and the nearest legal value.
std::vector<Plan> enumerate(const ModelConfig& model, const Cluster& cluster, const Pins& pins);

// A tier of a Job against the hardware. gpu: one device, of the class that needs most; cpu, nvme:
// the node that needs most, summed over its ranks.
struct TierUse {
  Bytes peak{0};                                    // slabs; live peaks before placement
  Bytes capacity{0};                                // usable by anyone
  Bytes reserve{0};                                 // kept for context, communicators, system
  Bytes headroom{0};                                // left free, in case more is needed
  std::array<Bytes, kCategoryCount> by_category{};  // alive at the peak: fragmentation left out
  Bytes available() const { return capacity - reserve - headroom; }
  bool fits() const { return peak <= available(); }
  Bytes over() const { return fits() ? Bytes{0} : peak - available(); }
  // What a placement takes beyond the bytes alive at the peak.
  Bytes gaps() const {
    Bytes rest = peak;
    for (const Bytes size : by_category) rest = rest - size;
    return rest;
  }
};
using MemoryUse = std::array<TierUse, kTierCount>;
MemoryUse memory_use(const Job& job, const Cluster& cluster);

// Why a plan does not fit: the tier whose needs exceed what is there by the largest factor.
struct Infeasible {
  Tier tier = Tier::kGpu;
  Bytes needed{0}, available{0};    // per device or node, as TierUse
  std::string peak_op;              // operation at the peak; empty when proven by a bound
  std::vector<LiveBuffer> largest;  // alive at the peak, per device or node
  std::string smallest_change;      // a single change of the plan that would fit, or empty
  bool is_bound() const { return peak_op.empty(); }
  double overload() const;  // needed / available
};
// Nothing when the Job fits. Leaves smallest_change empty: a Job knows nothing of its plan.
std::optional<Infeasible> check_fit(const Job& job, const Cluster& cluster);

// (ZeRO stage, tiers used, tp > 1, pp > 1, recipe)
struct Family {
  std::int32_t zero_stage = 0;
  bool cpu = false, nvme = false, tensor = false, pipeline = false;
  std::size_t recipe = 0;  // recipe_index
  friend auto operator<=>(const Family&, const Family&) = default;
};
Family family_of(const Plan& plan);
int tiers_used(const Family& family);
std::string name(const Family& family);  // "ZeRO-3 gpu+cpu tp pp", "ZeRO-0 gpu lean"

struct Estimate {
  Seconds bound{0};                      // never above the simulated period
  std::optional<Infeasible> infeasible;  // proven by bytes no placement can undercut
};
struct Fit {
  Seconds bound{0};  // never above the simulated period
  std::optional<Infeasible> infeasible;
  Bytes gpu{0};  // slab of the class that needs most
  // That the plan fits with: its own, or 0 where only the tightest fits.
  double slack = 0;
  std::int32_t prefetch = 0;
  Gather gather;
};

// What search asks of the rest of the program; tests substitute their own. Called from several
// threads at a time.
struct Evaluator {
  std::function<Estimate(const Plan&)> estimate;
  std::function<Fit(const Plan&)> fit;           // exact: lowers, places
  std::function<Seconds(const Plan&)> simulate;  // simulated period, within kSimulationTolerance
  // The simulated period itself. Empty: `simulate` tells it.
  std::function<Seconds(const Plan&)> simulate_exactly{};
  // Returns in how many of 100 samples, each with constants drawn from what is known of them,
  // `fastest` takes less time than `other`. Empty: nothing is known, and no two plans are told
  // apart.
  std::function<int(const Plan& fastest, const Plan& other)> wins{};
  // That of fit, of a plan that is lowered, but not placed; and one that is never above the
  // simulated period with its prefetch or a shallower one. Empty: nothing is known.
  std::function<Seconds(const Plan&)> bound{};
  std::function<Seconds(const Plan&)> bound_of_depths{};
  // Returns what the plan's parameters and gradients alone take between ranks and tiers, which many
  // plans share: never more than the simulated period. Empty: nothing is known.
  std::function<Seconds(const Plan&)> traffic{};
  // How much has been simulated so far, in operations; a plan that is lowered, bounded or placed
  // counts as those that take as long. Empty: nothing is counted.
  std::function<std::int64_t()> operations{};
  // Bytes of a GPU that no placement of the plan undercuts. Empty: none are known.
  std::function<Bytes(const Plan&)> least_gpu{};
  // Plans that differ in the homes of what is kept for backward alone, and may be faster
  // (homes/homes.h). Empty: none are known.
  std::function<std::vector<Plan>(const Plan&, const Pins&)> homes{};
  // Never above the simulated period of the plan with any homes and its prefetch or a shallower one
  // (shared_work.h). Empty: nothing is known.
  std::function<Seconds(const Plan&)> shared_work{};
};
// Told what each simulation has found, with its reliances; called from several threads at a time.
// Empty: nobody asks, and no reliances are looked for.
using KeepSimulation = std::function<void(const Plan&, const sim::SimResult&)>;
Evaluator make_evaluator(const ModelConfig& model, const Cluster& cluster,
                         KeepSimulation keep = {});
// Changes one field of a plan that does not fit; the first change that fits in words, or empty.
std::string smallest_change(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
                            const Evaluator& evaluator);

struct Candidate {
  Plan plan;
  Seconds bound{0};             // lower bound on the period
  std::optional<Seconds> step;  // simulated period
  std::optional<Infeasible> infeasible;
};

// What a search knows of a family.
enum class Standing : std::uint8_t {
  kRejected,  // each plan of it is proven no faster, was simulated and is slower, or does not fit
  kTied,      // a plan of it is as fast as the recommended one, which is preferred
  kSetAside,  // not tried: the same plans fit with states closer to the GPU, too
  kNotTried,  // a plan of it that was not simulated could be faster, or as fast and simpler
};
std::string_view name(Standing standing);  // "not_tried"

// One line per family that lost: its best plan, and what it would take or cost. A family of which
// nothing fits is represented by the plan that is least over.
struct Rejected {
  Family family;
  Candidate best;
  std::string reason;
  Standing standing{};
  // Of kNotTried: no plan of the family that was not simulated takes less.
  std::optional<Seconds> from{};
};

// A plan with its simulated step and the GPU memory that it takes.
struct Simulated {
  Plan plan;
  Seconds step{};
  Bytes gpu{0};  // slab of the class that needs most
};

// What settled the plans of the space, variants counted; their sum is the space.
struct Cuts {
  std::int64_t with_group = 0;  // all others: by the floor that they share, not one by one
  std::int64_t shared = 0;      // by what all plans that differ in homes alone have to do
  std::int64_t bytes = 0;       // more bytes than there are, whatever the placement
  std::int64_t floor = 0;       // their own floor
  std::int64_t placement = 0;   // placed, and do not fit
  std::int64_t bound = 0;       // lowered, and too slow by the bound of their Job
  std::int64_t simulated = 0;
  std::int64_t open = 0;  // nothing did: they could be faster than the fastest by over kProvenGap
};

struct SearchStats {
  std::int64_t space = 0;      // legal plans: leaves, with their variants where these count
  std::int64_t set_aside = 0;  // leaves that fit with their states closer to the GPU, too
  std::int64_t visited = 0;    // plans of it whose Job was lowered
  std::int64_t simulated = 0;  // plans of it simulated; without the tuning of the winner
  double gap = 0;
  Cuts cuts{};           // only with options.variants
  bool stopped = false;  // by options.stop: all is of what was known by then
};

struct SearchResult {
  std::optional<Candidate> best;     // the recommended plan; nothing when no plan fits
  std::optional<Candidate> fastest;  // where it is faster than `best`
  std::optional<int> wins;           // of `fastest` over `best` in 100 worlds, where known
  std::optional<Candidate> closest;  // when no plan fits: the one that is least over
  std::vector<Simulated> simulated;  // all that were, the fastest first
  std::vector<Rejected> rejected;    // in family order; smallest_change only in `closest`
  // Of the plans neither simulated nor proven not to fit the one with the least bound, which the
  // gap is of; nothing: there is none.
  std::optional<Candidate> open;
  SearchStats stats;
};

struct SearchOptions {
  int threads = 1;
  bool exhaustive = false;  // simulate every plan that fits, whatever the bounds say
  // The space, and with it the gap, is of all variants of the leaves (variants.h), and of the
  // leaves that are set aside. Once the leaves have been climbed and the winner is tuned, those
  // that could be faster by more than kProvenGap are tried, too.
  bool variants = false;
  // Stop after so many simulations (rounded up to a wave), but not before so many operations have
  // been spent; the gap says what may be lost. Operations depend on neither machine nor threads.
  // Of these leaves take half where variants count; tuning and variants have some even where the
  // leaves took more.
  std::int64_t max_simulated = std::numeric_limits<std::int64_t>::max();
  std::int64_t min_operations = 0;
  // Below these: as much as a search that may do so much, with its tuning, comes first, so that
  // doing more never makes the fastest plan slower. 0: all is one search.
  std::int64_t first_operations = 0;
  // Only faster plans matter: one that takes longer is found, and no more is done to find others.
  Seconds below{std::numeric_limits<double>::infinity()};
  std::function<void(const SearchStats&)> progress{};  // after each wave, from the calling thread
  // Asked before each wave once a plan was simulated: whether to end with the best so far.
  std::function<bool()> stop{};
};

SearchResult search(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                    const Evaluator& evaluator, const SearchOptions& options);

}  // namespace zplan
