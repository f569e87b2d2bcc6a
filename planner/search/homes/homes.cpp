#include "planner/search/homes/homes.h"

#include <algorithm>
#include <array>
#include <limits>

namespace zplan {
namespace {

// A tensor changes its home at multiples of this share of a stage's layers.
constexpr std::int32_t kShares = 16;
// Of the estimated time; what is below is not worth the search.
constexpr AssignmentLimits kLimits{.tolerance = 2e-3, .most_nodes = 20'000};
// Of what transfers and kernels take, this share is not hidden behind others. [assumed] So ties go
// to the homes that ask least of any resource.
constexpr double kUnhidden = 0.01;
// By what share of the present time homes must be better, by the estimate, to be looked at.
constexpr double kWorth = kTieTolerance;
// How often a choice that does not fit is made again with less room.
constexpr int kTries = 6;

// Farthest first. Partly: the probabilities of attention are recomputed.
enum class Home : std::uint8_t { kNvme, kCpu, kRecomputed, kPartly, kGpu };
constexpr std::size_t kHomeCount = 5;
// How many layers of a stage have each.
using Counts = std::array<std::int32_t, kHomeCount>;

constexpr std::size_t kMemories = 3;  // gpu, cpu, nvme

double many(const Counts& counts, Home home) { return counts[static_cast<std::size_t>(home)]; }

// Names of resources as indices, without those that never are the busiest: another one has at least
// as much to do in whatever is chosen. What is not hidden is a phase of its own.
class Numbering {
 public:
  explicit Numbering(const HomesQuestion& q) {
    for (const LayerTensor& t : q.tensors)
      for (const HomeLoads* loads : {&t.recomputed, &t.partly, &t.on_cpu, &t.on_nvme})
        all_.push_back(loads);
    for (const HomeLoads* loads : {&q.inputs.on_cpu, &q.inputs.on_nvme, &q.present})
      all_.push_back(loads);
    for (const HomesStage& stage : q.stages) all_.push_back(&stage.base);
    std::vector<std::string> names;
    for (const HomeLoads* loads : all_)
      for (const auto& [name, phases] : *loads)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    for (std::size_t i = 0; i < names.size();) {
      const bool is_below = std::any_of(names.begin(), names.end(), [&](const std::string& other) {
        return other != names[i] && at_most(names[i], other);
      });
      is_below ? static_cast<void>(names.erase(names.begin() + static_cast<std::ptrdiff_t>(i)))
               : static_cast<void>(++i);
    }
    for (std::size_t i = 0; i < names.size(); ++i) index_.emplace(names[i], i);
  }
  static constexpr std::size_t kPhases = kHomePhases + 1;
  std::size_t size() const { return index_.size(); }
  void add(std::vector<double>& sum, const HomeLoads& loads, double times) const {
    sum.resize(kPhases * size());
    for (const auto& [name, at] : index_)
      for (std::size_t p = 0; p < kHomePhases; ++p) {
        const double seconds = times * in(loads, name, p);
        sum[p * size() + at] += seconds;
        sum[kHomePhases * size()] += kUnhidden * seconds;
      }
  }

 private:
  static double in(const HomeLoads& loads, const std::string& name, std::size_t phase) {
    const auto at = loads.find(name);
    return at == loads.end() ? 0 : at->second[phase];
  }
  bool at_most(const std::string& name, const std::string& other) const {
    return std::all_of(all_.begin(), all_.end(), [&](const HomeLoads* loads) {
      for (std::size_t p = 0; p < kHomePhases; ++p)
        if (in(*loads, name, p) > in(*loads, other, p)) return false;
      return true;
    });
  }

  std::vector<const HomeLoads*> all_;
  std::map<std::string, std::size_t> index_;
};

class StageChooser {
 public:
  StageChooser(const HomesQuestion& question, const HomesStage& stage, const HomesAllowed& allowed,
               const Numbering& numbering, Tier inputs, double less)
      : q_(question), s_(stage), allowed_(allowed), numbering_(numbering) {
    chain_.phases = Numbering::kPhases;
    chain_.resources = numbering.size();
    chain_.room = {s_.room_gpu - less, q_.room_cpu, q_.room_nvme};
    numbering_.add(chain_.base, s_.base, 1);
    place_inputs(inputs);
    for (const LayerTensor& tensor : q_.tensors) add_tensor(tensor);
  }

  std::optional<Assignment> choose() const {
    for (const auto& options : chain_.tensors)
      if (options.empty()) return std::nullopt;
    if (chain_.room.front() <= 0) return std::nullopt;
    return assign_homes(chain_, kLimits);
  }

  // Of each layer of the stage.
  std::vector<RecomputeRun> runs(const Assignment& assignment) const {
    std::vector<RecomputeRun> layers(static_cast<std::size_t>(s_.layers()));
    for (std::size_t t = 0; t < q_.tensors.size(); ++t) {
      std::size_t layer = 0;
      const Counts& counts = counts_[t][assignment.option[t]];
      for (std::size_t h = 0; h < kHomeCount; ++h)
        for (std::int32_t i = 0; i < counts[h]; ++i, ++layer)
          add(layers[layer], q_.tensors[t].op, static_cast<Home>(h));
    }
    // Beside other operators attention is recomputed as a whole.
    for (RecomputeRun& layer : layers)
      if (layer.mode == Recompute::kSelective && !layer.is_sound())
        layer = {Recompute::kOperators, 0, layer.operators | OperatorSet{LayerOperator::kAttention},
                 layer.on_cpu, layer.on_nvme};
    return layers;
  }

 private:
  static void add(RecomputeRun& run, LayerOperator op, Home home) {
    if (home == Home::kGpu) return;
    if (home == Home::kPartly) {
      run.mode = Recompute::kSelective;
      return;
    }
    if (run.mode == Recompute::kNone) run.mode = Recompute::kOperators;
    OperatorSet& set = home == Home::kNvme  ? run.on_nvme
                       : home == Home::kCpu ? run.on_cpu
                                            : run.operators;
    set.add(op);
  }

  void place_inputs(Tier tier) {
    const double layers = s_.layers(), bytes = q_.inputs.kept * s_.in_flight;
    if (tier == Tier::kGpu) {
      chain_.room[0] -= bytes * (layers + 1);
      return;
    }
    chain_.room[0] -= q_.inputs.passing;
    chain_.room[static_cast<std::size_t>(tier)] -= bytes * layers;
    numbering_.add(chain_.base, tier == Tier::kCpu ? q_.inputs.on_cpu : q_.inputs.on_nvme,
                   layers * q_.micro_steps);
  }

  bool may(const LayerTensor& tensor, Home home) const {
    switch (home) {
      case Home::kGpu:
        return allowed_.kept;
      case Home::kRecomputed:
        return allowed_.recomputed;
      case Home::kPartly:
        return allowed_.recomputed && !tensor.partly.empty();
      case Home::kCpu:
        return allowed_.on_cpu && !tensor.on_cpu.empty() && q_.room_cpu > 0;
      case Home::kNvme:
        return allowed_.on_nvme && !tensor.on_nvme.empty() && q_.room_nvme > 0;
    }
    return false;
  }

  void add_tensor(const LayerTensor& tensor) {
    chain_.tensors.emplace_back();
    counts_.emplace_back();
    const std::int32_t step = std::max(1, s_.layers() / kShares);
    for (std::size_t a = 0; a < kHomeCount; ++a) {
      if (!may(tensor, static_cast<Home>(a))) continue;
      add_option(tensor, a, a, 0);
      for (std::size_t b = a + 1; b < kHomeCount; ++b)
        for (std::int32_t n = step; n < s_.layers() && may(tensor, static_cast<Home>(b)); n += step)
          add_option(tensor, a, b, n);
    }
  }

  // So many of the layers have the second home.
  void add_option(const LayerTensor& tensor, std::size_t first, std::size_t second,
                  std::int32_t n) {
    Counts counts{};
    counts[first] = s_.layers() - n;
    counts[second] += n;
    counts_.back().push_back(counts);
    const double away = many(counts, Home::kCpu) + many(counts, Home::kNvme);
    HomeOption option;
    double gpu = s_.in_flight * (many(counts, Home::kGpu) * tensor.kept + away * tensor.rest);
    const double partly = many(counts, Home::kPartly);
    gpu += s_.in_flight * partly * tensor.partly_kept;
    if (partly > 0) gpu += tensor.partly_replayed;
    if (many(counts, Home::kRecomputed) > 0) gpu += tensor.replayed;
    if (away > 0) gpu += tensor.passing;
    option.bytes = {gpu, s_.in_flight * many(counts, Home::kCpu) * tensor.away,
                    s_.in_flight * many(counts, Home::kNvme) * tensor.away};
    option.seconds.resize(chain_.base.size());
    const auto add = [&](Home home, const HomeLoads& loads) {
      numbering_.add(option.seconds, loads, many(counts, home) * q_.micro_steps);
    };
    add(Home::kRecomputed, tensor.recomputed);
    add(Home::kPartly, tensor.partly);
    add(Home::kCpu, tensor.on_cpu);
    add(Home::kNvme, tensor.on_nvme);
    chain_.tensors.back().push_back(std::move(option));
  }

  const HomesQuestion& q_;
  const HomesStage& s_;
  const HomesAllowed& allowed_;
  const Numbering& numbering_;
  TensorChain chain_;
  std::vector<std::vector<Counts>> counts_;  // by tensor and option
};

// Neighbours that are alike together.
std::vector<RecomputeRun> together(const std::vector<RecomputeRun>& layers) {
  std::vector<RecomputeRun> runs;
  for (RecomputeRun layer : layers) {
    layer.layers = runs.empty() ? 0 : runs.back().layers;
    if (!runs.empty() && layer == runs.back()) {
      ++runs.back().layers;
    } else {
      layer.layers = 1;
      runs.push_back(layer);
    }
  }
  if (!runs.empty()) runs.back().layers = 0;  // all that are left
  return runs;
}

std::optional<ChosenHomes> with_inputs(const HomesQuestion& q, const HomesAllowed& allowed,
                                       const Numbering& numbering, Tier inputs, double less) {
  ChosenHomes chosen{.plan = q.plan};
  chosen.plan.placement.activations = inputs;
  std::vector<RecomputeRun> layers(static_cast<std::size_t>(q.layers));
  for (const HomesStage& stage : q.stages) {
    const StageChooser chooser(q, stage, allowed, numbering, inputs, less);
    const std::optional<Assignment> found = chooser.choose();
    if (!found) return std::nullopt;
    const std::vector<RecomputeRun> own = chooser.runs(*found);
    for (std::size_t i = 0; i < own.size(); ++i)
      layers[static_cast<std::size_t>(stage.numbers[i])] = own[i];
    chosen.seconds = std::max(chosen.seconds, found->seconds);
    chosen.bound = std::max(chosen.bound, found->bound);
  }
  chosen.plan.recompute = together(layers);
  return chosen;
}

}  // namespace

std::optional<ChosenHomes> choose_homes(const HomesQuestion& q, const HomesAllowed& allowed,
                                        const ModelShape& model, Bytes less) {
  if (q.stages.empty()) return std::nullopt;
  const Numbering numbering(q);
  std::optional<ChosenHomes> best;
  for (const Tier inputs : allowed.inputs) {
    if (inputs == Tier::kNvme && q.inputs.on_nvme.empty()) continue;
    auto chosen = with_inputs(q, allowed, numbering, inputs, static_cast<double>(less.value));
    if (!chosen || illegal(chosen->plan, model)) continue;
    if (!best || chosen->seconds < best->seconds) best = std::move(chosen);
  }
  return best;
}

std::optional<ChosenHomes> choose_fitting_homes(const HomesQuestion& q, const HomesAllowed& allowed,
                                                const ModelShape& model,
                                                const std::function<Fit(const Plan&)>& fit,
                                                Bytes less) {
  Bytes over{0};  // that were missing last
  for (int i = 0; i < kTries; ++i) {
    std::optional<ChosenHomes> chosen = choose_homes(q, allowed, model, less);
    if (!chosen) {
      if (over.value == 0) return std::nullopt;
      over = over / 2;  // less room is needed than there was too much taken
      less = less - over;
      continue;
    }
    const Fit found = fit(chosen->plan);
    if (!found.infeasible) {
      chosen->plan.slack = found.slack;
      return chosen;
    }
    if (found.infeasible->tier != Tier::kGpu) return std::nullopt;
    over = found.infeasible->needed - found.infeasible->available;
    less = less + over;
  }
  return std::nullopt;
}

namespace {

// Of a plan all of whose layers take so much more than what is kept.
double seconds_with(const HomesQuestion& q, const HomeLoads& more) {
  const Numbering numbering(q);
  double slowest = 0;
  for (const HomesStage& stage : q.stages) {
    TensorChain chain{.phases = Numbering::kPhases,
                      .resources = numbering.size(),
                      .room = {},
                      .base = {},
                      .tensors = {}};
    numbering.add(chain.base, stage.base, 1);
    numbering.add(chain.base, more, stage.layers() * q.micro_steps);
    slowest = std::max(slowest, chain.time_of(chain.base));
  }
  return slowest;
}

}  // namespace

std::vector<Plan> promising_homes(const Plan& plan, const ModelConfig& model,
                                  const Cluster& cluster, const Pins& pins,
                                  const std::function<Fit(const Plan&)>& fit, SharedWires* wires) {
  const HomesQuestion question = ask_homes(plan, model, cluster, wires);
  const bool pinned = pins.has("/placement/activations");
  const double present = plan.recompute.size() == 1 ? seconds_with(question, question.present)
                                                    : std::numeric_limits<double>::infinity();
  if (seconds_with(question, {}) > present * (1 - kWorth)) return {};
  const auto inputs = [&](std::vector<Tier> free) {
    return pinned ? std::vector{plan.placement.activations} : std::move(free);
  };
  using enum Tier;
  const HomesAllowed all{.inputs = inputs({kGpu, kCpu, kNvme})};
  const HomesAllowed no_drives{.on_nvme = false, .inputs = inputs({kGpu, kCpu})};
  const HomesAllowed no_links{.on_cpu = false, .on_nvme = false, .inputs = inputs({kGpu})};
  std::vector<Plan> plans;
  for (const HomesAllowed& allowed : {all, no_drives, no_links}) {
    std::optional<ChosenHomes> chosen =
        choose_fitting_homes(question, allowed, shape_of(model), fit);
    if (!chosen || chosen->seconds > present * (1 - kWorth)) continue;
    if (std::find(plans.begin(), plans.end(), chosen->plan) == plans.end())
      plans.push_back(std::move(chosen->plan));
  }
  return plans;
}

}  // namespace zplan
