// Worlds: samples of what the constants may truly be. Plans are compared in the same worlds, so
// that what slows both down alike does not blur which one is faster.
//
// World w draws every constant from its Knowledge (jointly, through a Cholesky root) and, for each
// plan, an error of its own: what is left of single runs. Draws are counted (Philox by world and
// constant, by world and plan, by world and reading), so the same question has the same worlds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/certainty/knowledge.h"
#include "planner/core/units.h"

namespace zplan {

inline constexpr int kWorlds = 100;

// A plan as the worlds see it.
struct Contender {
  Seconds predicted{};
  std::vector<double> reliances{};  // by Constant
  std::uint64_t key = 0;            // tells its errors from those of other plans
};

class Worlds {
 public:
  explicit Worlds(const Knowledge& knowledge);

  double log_time(int world, const Contender& plan) const;
  // What the constants add to the logarithm of a time that rests on them so.
  double shift(int world, std::span<const double> reliances) const;
  // Standard normal, of a reading with this key.
  double noise(int world, std::uint64_t key) const;
  // In how many of the kWorlds `a` is faster than `b`.
  int wins(const Contender& a, const Contender& b) const;

 private:
  std::vector<std::vector<double>> draws_;  // by world, Constant
  double run_sd_;
};

}  // namespace zplan
