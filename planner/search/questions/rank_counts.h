// Plans on some of a cluster's devices: on how many of them a plan costs least, and the fewest on
// which one fits at all. Ranks fill nodes in order; the devices left over stay idle and cost
// nothing.
//
// Numbers tried. Fewest: every number within a node, then whole nodes. Cheapest: divisors of a
// node, then whole nodes, each up to eight, beyond them two for each power of two, and all.
// Pinned counts of ranks leave those that they divide; where they say how many there are, that one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/questions/objective.h"
#include "planner/search/search.h"

namespace zplan {

std::vector<std::int64_t> all_rank_counts(const Cluster& cluster, const Pins& pins);
std::vector<std::int64_t> some_rank_counts(const Cluster& cluster, const Pins& pins);

struct FewestRanks {
  std::int64_t ranks = 0;            // 0: no plan fits on any
  std::int64_t most_without = 0;     // the most tried before it, on which no plan is or fits
  std::optional<Infeasible> misfit;  // there, where a plan is legal
  std::string why;                   // there is none, where not
  std::int64_t tried = 0;
  bool interrupted = false;
};
// Exact: of the plans of the space none fits on fewer devices, of the numbers tried.
FewestRanks fewest_ranks(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                         const QuestionRun& run);

// What a step costs with one number of ranks, in device-seconds: ranks x period.
struct RankCount {
  std::int64_t ranks = 0;
  std::optional<Seconds> step;  // of the plan that a short search recommends
  double cost = 0;              // of it
  double least_cost = 0;        // no plan of the space costs less
  std::string why;              // there is none: illegal, or nothing fits
  bool is_legal = true;         // else `why` says what is not
  bool passed_over = false;     // least_cost is not below what another one costs
};
struct CheapestRanks {
  std::int64_t ranks = 0;  // 0: no plan fits on any
  std::vector<RankCount> counts;
  bool interrupted = false;  // some were not tried
};
// The numbers with the least bounds are searched first, with `options`; one whose bound is no lower
// than what is known is passed over. `evaluator` remembers what plans on all of them share.
CheapestRanks cheapest_ranks(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                             const Evaluator& evaluator, const SearchOptions& options,
                             const QuestionRun& run);

}  // namespace zplan
