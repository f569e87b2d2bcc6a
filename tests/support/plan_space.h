// The plans that the cross-checks run: a greedy pairwise-covering set over all choices of the
// space, so that every legal pair of two choices occurs in some plan. Deterministic.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/plan.h"

namespace zplan::testing_support {

inline constexpr std::int64_t kGlobalBatch = 8;

inline Plan base_plan(const std::string& kernel_set) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(kernel_set);
  plan.batch = {.global_batch = kGlobalBatch, .micro_batch = 4, .sequence = 32};
  return plan;
}

// One rank, nothing sharded, nothing recomputed, nothing offloaded.
inline Plan reference_plan(const std::string& kernel_set) { return base_plan(kernel_set); }

inline constexpr int kFactors = 11;
using Choice = std::array<int, kFactors>;  // index of the level of each factor
inline constexpr Choice kLevels{4, 2, 3, 2, 2, 2, 2, 2, 2, 2, 3};

inline Plan plan_of(const Choice& c, const std::string& kernel_set) {
  const auto tier = [](int level) { return level == 0 ? Tier::kGpu : Tier::kCpu; };
  Plan p = base_plan(kernel_set);
  p.zero_stage = c[0];
  p.parallel.pp = c[1] + 1;
  p.parallel.dp = 1 << c[2];
  p.recompute = c[3] == 0 ? Recompute::kNone : Recompute::kFull;
  p.gather = c[4] == 0 ? GatherUnit::kLayer : GatherUnit::kOperator;
  p.placement = {tier(c[5]), tier(c[6]), tier(c[7]), tier(c[8])};
  const std::int64_t micro_steps = c[9] + 1;
  p.batch.micro_batch = kGlobalBatch / (p.parallel.dp * micro_steps);
  p.prefetch = c[10];
  return p;
}

inline std::vector<Choice> legal_choices() {
  std::vector<Choice> all{Choice{}};
  for (std::size_t f = 0; f < kFactors; ++f) {
    std::vector<Choice> wider;
    for (const Choice& c : all)
      for (int level = 0; level < kLevels[f]; ++level) {
        wider.push_back(c);
        wider.back()[f] = level;
      }
    all = std::move(wider);
  }
  const std::int64_t layers = load_model("tiny-gpt").layers;
  std::erase_if(
      all, [&](const Choice& c) { return illegal(plan_of(c, "cpu.f32"), layers).has_value(); });
  return all;
}

using Pair = std::array<int, 4>;  // factor, level, factor, level
inline std::vector<Pair> pairs_of(const Choice& c) {
  std::vector<Pair> pairs;
  for (int f = 0; f < kFactors; ++f)
    for (int g = f + 1; g < kFactors; ++g)
      pairs.push_back({f, c[static_cast<std::size_t>(f)], g, c[static_cast<std::size_t>(g)]});
  return pairs;
}

// Every pair of levels that some legal plan has, in few plans, taken from `pool`.
inline std::vector<Choice> cover_pairs(const std::vector<Choice>& pool) {
  std::set<Pair> open;
  for (const Choice& c : pool)
    for (const Pair& p : pairs_of(c)) open.insert(p);
  std::vector<Choice> chosen;
  while (!open.empty()) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < pool.size(); ++i) {
      std::size_t covers = 0;
      for (const Pair& p : pairs_of(pool[i])) covers += open.count(p);
      if (covers > most) most = covers, best = i;
    }
    for (const Pair& p : pairs_of(pool[best])) open.erase(p);
    chosen.push_back(pool[best]);
  }
  return chosen;
}

// Two disjoint covers: every pair occurs with different surroundings.
inline std::vector<Choice> pairwise_choices() {
  std::vector<Choice> pool = legal_choices();
  std::vector<Choice> chosen = cover_pairs(pool);
  std::erase_if(pool, [&](const Choice& c) {
    return std::find(chosen.begin(), chosen.end(), c) != chosen.end();
  });
  const std::vector<Choice> more = cover_pairs(pool);
  chosen.insert(chosen.end(), more.begin(), more.end());
  return chosen;
}

// "z3_pp2_dp4_full_operator_pcpu_gcpu_ocpu_acpu_m2_f1"; also a valid test name.
inline std::string name_of(const Choice& c) {
  const Plan p = plan_of(c, "cpu.f32");
  const auto tier = [](const char* what, Tier t) {
    return "_" + std::string(what) + std::string(name(t));
  };
  return "z" + std::to_string(p.zero_stage) + "_pp" + std::to_string(p.parallel.pp) + "_dp" +
         std::to_string(p.parallel.dp) + "_" + std::string(name(p.recompute)) + "_" +
         std::string(name(p.gather)) + tier("p", p.placement.params) +
         tier("g", p.placement.grads) + tier("o", p.placement.optimizer) +
         tier("a", p.placement.activations) + "_m" + std::to_string(p.micro_steps()) + "_f" +
         std::to_string(p.prefetch);
}

}  // namespace zplan::testing_support
