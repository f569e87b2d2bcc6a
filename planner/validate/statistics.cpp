#include "planner/validate/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zplan {
namespace {

using Runs = std::vector<const RunResult*>;

struct Errors {
  double mape_pct = 0, median_ape_pct = 0, p90_ape_pct = 0, bias_pct = 0;
};

Errors summarise(const std::vector<double>& signed_pct) {
  Errors sums;
  if (signed_pct.empty()) return sums;
  std::vector<double> sizes;
  for (const double error : signed_pct) {
    sums.bias_pct += error;
    sums.mape_pct += std::abs(error);
    sizes.push_back(std::abs(error));
  }
  const std::size_t n = sizes.size();
  sums.bias_pct /= static_cast<double>(n);
  sums.mape_pct /= static_cast<double>(n);
  std::sort(sizes.begin(), sizes.end());
  sums.median_ape_pct = (sizes[(n - 1) / 2] + sizes[n / 2]) / 2;
  sums.p90_ape_pct = sizes[(9 * n + 9) / 10 - 1];
  return sums;
}

double share_pct(int part, int whole) { return whole == 0 ? 0 : 100.0 * part / whole; }

struct SweepCounts {
  int pairs = 0, right = 0;
  double best_ratio = 1;
};

SweepCounts count_sweep(const Runs& runs) {
  SweepCounts counts;
  const RunResult* chosen = runs.front();
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunResult& a = *runs[i];
    if (*a.predicted_s < *chosen->predicted_s) chosen = &a;
    best = std::min(best, *a.measured_s);
    for (std::size_t j = i + 1; j < runs.size(); ++j) {
      const auto [low, high] = std::minmax(*a.measured_s, *runs[j]->measured_s);
      if (high <= low * (1 + kPairDifference)) continue;
      ++counts.pairs;
      const bool measured_less = *a.measured_s < *runs[j]->measured_s;
      const bool right = measured_less ? *a.predicted_s < *runs[j]->predicted_s
                                       : *a.predicted_s > *runs[j]->predicted_s;
      if (right) ++counts.right;
    }
  }
  counts.best_ratio = *chosen->measured_s / best;
  return counts;
}

TimeStatistics time_statistics(const Runs& runs) {
  TimeStatistics out;
  std::vector<double> errors, half_widths;
  int in_interval = 0;
  std::map<std::string, Runs> sweeps;
  for (const RunResult* run : runs) {
    if (!run->has_time()) continue;
    errors.push_back(run->time_error_pct());
    half_widths.push_back(50 * (run->high_s - run->low_s) / *run->predicted_s);
    in_interval += run->in_interval() ? 1 : 0;
    sweeps[run->sweep].push_back(run);
  }
  const Errors sums = summarise(errors);
  out.n = static_cast<int>(errors.size());
  out.mape_pct = sums.mape_pct;
  out.median_ape_pct = sums.median_ape_pct;
  out.p90_ape_pct = sums.p90_ape_pct;
  out.bias_pct = sums.bias_pct;
  out.in_interval_pct = share_pct(in_interval, out.n);
  out.half_width_pct = summarise(half_widths).median_ape_pct;
  int right = 0, within = 0;
  for (const auto& [key, members] : sweeps) {
    if (members.size() < 2) continue;
    const SweepCounts counts = count_sweep(members);
    ++out.sweeps;
    out.pairs += counts.pairs;
    right += counts.right;
    if (counts.best_ratio <= 1 + kBestTolerance) ++within;
    out.worst_best_ratio = std::max(out.worst_best_ratio, counts.best_ratio);
  }
  out.pairs_right_pct = share_pct(right, out.pairs);
  out.sweeps_best_within_pct = share_pct(within, out.sweeps);
  return out;
}

MemoryStatistics memory_statistics(const Runs& runs) {
  MemoryStatistics out;
  std::vector<double> errors;
  int bounded = 0;
  for (const RunResult* run : runs) {
    if (!run->unsupported.empty()) continue;
    if (run->has_memory()) {
      errors.push_back(run->memory_error_pct());
      if (run->bound_gib && *run->measured_gib <= *run->bound_gib) ++bounded;
    }
    const bool ran = run->measured_s || run->measured_gib;
    if (run->out_of_memory && run->fits == true) ++out.false_fits;
    if (!run->out_of_memory && ran && run->fits == false) ++out.false_ooms;
  }
  const Errors sums = summarise(errors);
  out.n = static_cast<int>(errors.size());
  out.mape_pct = sums.mape_pct;
  out.median_ape_pct = sums.median_ape_pct;
  out.bias_pct = sums.bias_pct;
  out.bounded_pct = share_pct(bounded, out.n);
  return out;
}

}  // namespace

RunStatistics statistics(const std::vector<const RunResult*>& runs) {
  return {.time = time_statistics(runs), .memory = memory_statistics(runs)};
}

ValidationStatistics statistics(const std::vector<RunResult>& runs) {
  ValidationStatistics out;
  Runs all;
  std::map<std::string, Runs> by_group;
  for (const RunResult& run : runs) {
    all.push_back(&run);
    by_group[run.group].push_back(&run);
  }
  out.all = statistics(all);
  int timed = 0;
  for (const auto& [group, members] : by_group) {
    const RunStatistics& of = out.groups.emplace(group, statistics(members)).first->second;
    if (of.time.n == 0) continue;
    ++timed;
    out.mean_group_mape_pct += of.time.mape_pct;
  }
  if (timed > 0) out.mean_group_mape_pct /= timed;
  return out;
}

std::vector<const RunResult*> worst_runs(const std::vector<RunResult>& runs, std::size_t count) {
  Runs timed;
  for (const RunResult& run : runs)
    if (run.has_time()) timed.push_back(&run);
  std::stable_sort(timed.begin(), timed.end(), [](const RunResult* a, const RunResult* b) {
    return std::abs(a->time_error_pct()) > std::abs(b->time_error_pct());
  });
  if (timed.size() > count) timed.resize(count);
  return timed;
}

}  // namespace zplan
