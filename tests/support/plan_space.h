// The plans that the cross-checks run: pairwise-covering sets over all choices of the space, so
// that every pair of two choices that any legal plan has occurs in some plan, in several
// surroundings. Built greedily from seeded random completions; deterministic.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "tests/support/sanitized.h"

namespace zplan::testing_support {

inline constexpr std::int64_t kGlobalBatch = 8;
inline constexpr std::int32_t kMostRanks = 4;

inline Plan base_plan(const std::string& kernel_set, const std::string& model = "tiny-gpt") {
  Plan plan;
  plan.model = model;
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(kernel_set);
  plan.batch = {.global_batch = kGlobalBatch, .micro_batch = 4, .sequence = 32};
  return plan;
}

// One rank, nothing sharded, nothing recomputed, nothing offloaded.
inline Plan reference_plan(const std::string& kernel_set, const std::string& model = "tiny-gpt") {
  return base_plan(kernel_set, model);
}

enum Factor : int {
  kZero,
  kPp,
  kDp,
  kTp,
  kSequenceParallel,
  kShards,
  kRecompute,
  kGather,
  kUnitLayers,
  kOwners,
  kTiles,
  kParams,
  kGrads,
  kOptimizer,
  kActivations,
  kMicroSteps,
  kPrefetch,
  kSchedule,
  kPartition,
  kAttention,
  kStages,
  kModel,
  kFactors,
};
using Choice = std::array<int, kFactors>;  // index of the level of each factor
inline constexpr Choice kLevels{4, 3, 3, 3, 2, 2, 4, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2};

inline std::vector<RecomputeRun> recompute_of(int level) {
  switch (level) {
    case 1:
      return {{Recompute::kSelective, 0}};
    case 2:
      return {{Recompute::kFull, 0}};
    case 3:
      return {{Recompute::kFull, 1}, {Recompute::kNone, 2}, {Recompute::kSelective, 0}};
    default:
      return {{Recompute::kNone, 0}};
  }
}

inline Plan plan_of(const Choice& c, const std::string& kernel_set) {
  constexpr std::array<Tier, 3> kTiers{Tier::kGpu, Tier::kCpu, Tier::kNvme};
  const auto tier = [&](Factor f) { return kTiers[static_cast<std::size_t>(c[f])]; };
  Plan p = base_plan(kernel_set + (c[kAttention] == 1 ? ".unfused" : ""),
                     c[kModel] == 0 ? "tiny-gpt" : "tiny-llama");
  p.zero_stage = c[kZero];
  p.parallel.pp = c[kPp] + 1;
  p.parallel.dp = 1 << c[kDp];
  p.parallel.tp = 1 << c[kTp];
  p.parallel.sequence_parallel = c[kSequenceParallel] == 1;
  p.parallel.shards = c[kShards] == 0 ? 0 : std::max(1, p.parallel.dp / 2);
  p.recompute = recompute_of(c[kRecompute]);
  p.gather = c[kGather] == 0 ? GatherUnit::kLayer : GatherUnit::kOperator;
  p.owners = c[kOwners] == 1;
  p.unit_layers = p.owners ? p.shards() : c[kUnitLayers] + 1;
  p.tiles = c[kTiles] + 1;
  p.placement = {tier(kParams), tier(kGrads), tier(kOptimizer), tier(kActivations)};
  const std::int64_t micro_steps = std::int64_t{1} << c[kMicroSteps];
  p.batch.micro_batch = kGlobalBatch / (p.parallel.dp * micro_steps);
  p.prefetch = c[kPrefetch];
  p.schedule = c[kSchedule] == 0 ? Schedule::kOneForwardOneBackward : Schedule::kGpipe;
  p.partition_activations = c[kPartition] == 1;
  if (c[kStages] == 1)
    p.stage_layers =
        p.parallel.pp == 3 ? std::vector<std::int32_t>{1, 1, 2} : std::vector<std::int32_t>{1, 3};
  return p;
}

inline bool is_legal(const Choice& c) {
  static const ModelConfig gpt = load_model("tiny-gpt"), llama = load_model("tiny-llama");
  const Plan p = plan_of(c, "cpu.f32");
  const bool too_many = p.parallel.dp * p.parallel.tp * p.parallel.pp > kMostRanks;
  // A level that changes nothing is none.
  const bool idle =
      (c[kShards] == 1 && p.parallel.dp == 1) || (c[kOwners] == 1 && c[kUnitLayers] == 1);
  return !too_many && !idle && p.batch.micro_batch > 0 &&
         !illegal(p, shape_of(c[kModel] == 0 ? gpt : llama));
}

using Pair = std::array<int, 4>;  // factor, level, factor, level
inline std::vector<Pair> pairs_of(const Choice& c) {
  std::vector<Pair> pairs;
  for (int f = 0; f < kFactors; ++f)
    for (int g = f + 1; g < kFactors; ++g)
      pairs.push_back({f, c[static_cast<std::size_t>(f)], g, c[static_cast<std::size_t>(g)]});
  return pairs;
}

// A random legal plan that has the pair; most factors start from plain levels, since few random
// combinations are legal.
inline bool complete(const Pair& pair, std::mt19937_64& random, Choice& result) {
  constexpr int kTries = 4000;
  for (int i = 0; i < kTries; ++i) {
    Choice c{};
    const std::uint64_t spread = 1 + random() % 3;  // one in so many factors leaves its plain level
    for (std::size_t f = 0; f < kFactors; ++f)
      if (random() % spread == 0)
        c[f] = static_cast<int>(random() % static_cast<std::uint64_t>(kLevels[f]));
    c[static_cast<std::size_t>(pair[0])] = pair[1];
    c[static_cast<std::size_t>(pair[2])] = pair[3];
    if (!is_legal(c)) continue;
    result = c;
    return true;
  }
  return false;
}

inline std::vector<Choice> cover_pairs(std::uint64_t seed) {
  constexpr int kCandidates = 12;
  std::mt19937_64 random(seed);
  std::set<Pair> open;
  for (std::size_t f = 0; f < kFactors; ++f)
    for (std::size_t g = f + 1; g < kFactors; ++g)
      for (int a = 0; a < kLevels[f]; ++a)
        for (int b = 0; b < kLevels[g]; ++b)
          open.insert({static_cast<int>(f), a, static_cast<int>(g), b});
  std::vector<Choice> chosen;
  while (!open.empty()) {
    const Pair first = *open.begin();
    Choice best{};
    std::size_t most = 0;
    for (int i = 0; i < kCandidates; ++i) {
      Choice c;
      if (!complete(first, random, c)) break;
      std::size_t covers = 0;
      for (const Pair& p : pairs_of(c)) covers += open.count(p);
      if (covers > most) most = covers, best = c;
    }
    open.erase(first);
    if (most == 0) continue;  // no legal plan has the pair
    for (const Pair& p : pairs_of(best)) open.erase(p);
    chosen.push_back(best);
  }
  return chosen;
}

// Under sanitizers a part, in which every level of every factor still occurs.
inline std::vector<Choice> thinned(const std::vector<Choice>& all) {
  std::set<std::pair<std::size_t, int>> seen;
  std::vector<Choice> some;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Choice& c = all[all.size() - 1 - i];  // the last ones, found last, have the rarer levels
    bool is_kept = i % kEvery == 0;
    for (std::size_t f = 0; f < kFactors; ++f) is_kept |= !seen.contains({f, c[f]});
    if (!is_kept) continue;
    for (std::size_t f = 0; f < kFactors; ++f) seen.emplace(f, c[f]);
    some.push_back(c);
  }
  return some;
}

// Several covers: every pair occurs with different surroundings.
inline const std::vector<Choice>& pairwise_choices() {
  static const std::vector<Choice> choices = [] {
    std::vector<Choice> all;
    for (const std::uint64_t seed : {1U, 2U})
      for (const Choice& c : cover_pairs(seed))
        if (std::find(all.begin(), all.end(), c) == all.end()) all.push_back(c);
    return thinned(all);
  }();
  return choices;
}

// "z3_p2d2t1_full_operator_..": the levels that are not the plain ones; also a valid test name.
inline std::string name_of(const Choice& c) {
  const Plan p = plan_of(c, "cpu.f32");
  std::string s = "z" + std::to_string(p.zero_stage) + "_p" + std::to_string(p.parallel.pp) + "d" +
                  std::to_string(p.parallel.dp) + "t" + std::to_string(p.parallel.tp);
  const auto add = [&](bool set, const std::string& word) {
    if (set) s += "_" + word;
  };
  const auto tier = [&](const char* what, Tier t) {
    add(t != Tier::kGpu, what + std::string(name(t)));
  };
  add(p.parallel.sequence_parallel, "sp");
  add(p.parallel.shards != 0, "s" + std::to_string(p.parallel.shards));
  add(c[kRecompute] == 3, "mixed");
  add(c[kRecompute] != 3 && c[kRecompute] != 0, std::string(name(p.recompute[0].mode)));
  add(true, std::string(name(p.gather)));
  add(p.unit_layers > 1 && !p.owners, "u2");
  add(p.owners, "owners");
  add(p.tiles > 1, "tiled");
  tier("p", p.placement.params);
  tier("g", p.placement.grads);
  tier("o", p.placement.optimizer);
  tier("a", p.placement.activations);
  add(true, "m" + std::to_string(p.micro_steps()));
  add(true, "f" + std::to_string(p.prefetch));
  add(p.schedule == Schedule::kGpipe, "gpipe");
  add(p.partition_activations, "pa");
  add(c[kAttention] == 1, "unfused");
  add(!p.stage_layers.empty(), "uneven");
  add(c[kModel] == 1, "llama");
  return s;
}

}  // namespace zplan::testing_support
