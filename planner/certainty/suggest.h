// What a measurement is worth before a plan is chosen: how often it would change the choice, and
// how much time a step is expected to take less because of it.
//
//   log time      of contender i: t_i = log(predicted) + sum_k elasticity_ik x_k + e_i, with the
//                 constants x of the Knowledge and an error e_i of the plan alone, known in part
//   readings      y = sum_k h_k x_k + noise: a benchmark of an operation, whose time rests on the
//                 constants with elasticities h; or t_c + noise: a step of contender c
//   choice        the contender of least expected time: exp(m + v / 2), m and v mean and variance
//                 of t_i. Constants and errors are jointly normal, so t_i stays normal after
//                 readings, with the mean and variance given y
//   value         in each world (worlds.h) y is drawn and t_i conditioned on it. Saved: what the
//                 choice without the readings is expected to take, given y, less the least that any
//                 contender is. The mean over the worlds is never negative: the expected value of
//                 sample information under a Gaussian approximation [Jalal18]; without noise that
//                 of partial perfect information [Strong14]
//
// One-sided constants count as normal ones of the same mean and variance in expectations; the
// worlds draw them as they are. Left out: what a measurement costs; what differs between the kinds
// of the contenders, whose knowledge is one.
#pragma once

#include <optional>
#include <vector>

#include "planner/certainty/worlds.h"

namespace zplan {

// Of the logarithm of a time, one standard deviation. [assumed] benchmarks repeat within a few
// percent, and a step meets an operation under other conditions; steps of one run differ by less.
inline constexpr double kBenchmarkNoise = 0.03, kStepNoise = 0.01;

struct Reading {
  std::vector<double> reliances{};         // of what is timed, by Constant
  std::optional<std::size_t> contender{};  // whose step it is: the error of the plan is read, too
  double noise = kBenchmarkNoise;
};
// Taken together, before one chooses.
using Measurement = std::vector<Reading>;

struct MeasurementValue {
  int changes = 0;    // of kWorlds: the choice is another one
  double saving = 0;  // expected; share of the expected time of the choice without it
};

class PlanChoice {
 public:
  // At least one; of equally good contenders the first is chosen.
  PlanChoice(const Knowledge& knowledge, std::vector<Contender> contenders);

  std::size_t chosen() const { return chosen_; }
  Seconds expected(std::size_t contender) const;
  // In how many of the kWorlds no contender is faster.
  int fastest_in(std::size_t contender) const;
  // Of knowing all of it: no measurement is worth more.
  MeasurementValue perfect() const;
  MeasurementValue value_of(const Measurement& measurement) const;
  // How well a reading is known without it: one standard deviation of what it measures.
  double uncertainty(const Reading& reading) const;

 private:
  double covariance(const Reading& a, const Reading& b) const;
  double drawn(int world, const Reading& reading, std::uint64_t key) const;

  Knowledge knowledge_;  // without one-sided constants
  Worlds worlds_;
  std::vector<Contender> contenders_;
  std::vector<Reading> steps_;  // of the contenders, without noise
  std::size_t chosen_ = 0;
};

}  // namespace zplan
