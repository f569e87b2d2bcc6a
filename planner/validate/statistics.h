// How far predictions are from measurements. Errors are (predicted - measured) / measured, in per
// cent; ape is the absolute error.
//
//   mape, bias      means of absolute and of signed errors
//   median, p90     of the absolute errors: the middle one (of an even number the mean of the two),
//                   the least that at least 90 % do not exceed
//   pairs           of runs of one sweep whose measured times differ by more than 10 % of the
//                   shorter; right: predicted in the same order
//   best ratio      per sweep of several runs: the measured time of the plan predicted fastest over
//                   the shortest measured
//   bounded         share of the runs that measured no more than the bound of their memory
//   false fits      labelled out of memory, predicted to fit; false ooms: measured, predicted not
//   to
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/validate/evaluate.h"

namespace zplan {

inline constexpr double kPairDifference = 0.10;
inline constexpr double kBestTolerance = 0.03;

struct TimeStatistics {
  int n = 0;
  double mape_pct = 0, median_ape_pct = 0, p90_ape_pct = 0, bias_pct = 0;
  int pairs = 0;
  double pairs_right_pct = 0;
  int sweeps = 0;                     // of several runs
  double sweeps_best_within_pct = 0;  // of them with a best ratio up to 1 + kBestTolerance
  double worst_best_ratio = 1;
};

struct MemoryStatistics {
  int n = 0;
  double mape_pct = 0, median_ape_pct = 0, bias_pct = 0;
  double bounded_pct = 0;  // of the runs: no more measured than the bound
  int false_fits = 0, false_ooms = 0;
};

struct RunStatistics {
  TimeStatistics time;
  MemoryStatistics memory;
};

// Every run counts once; runs that are not supported count in nothing.
RunStatistics statistics(const std::vector<const RunResult*>& runs);

struct ValidationStatistics {
  RunStatistics all;
  std::map<std::string, RunStatistics> groups;
  double mean_group_mape_pct = 0;  // of step time, over the groups that have one
};
ValidationStatistics statistics(const std::vector<RunResult>& runs);

// The runs with the largest absolute errors of step time, largest first, at most `count`.
std::vector<const RunResult*> worst_runs(const std::vector<RunResult>& runs, std::size_t count);

}  // namespace zplan
