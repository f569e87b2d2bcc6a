// Days for a number of tokens with failures and checkpoints, of one Job on its cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/cli/frame/options.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/sizing/running_cost.h"
#include "planner/cost/goodput.h"

namespace zplan {

struct GoodputAnswer {
  double tokens = 0;
  Seconds step{};  // simulated, times the factor of stragglers
  double stragglers = 1;
  double steps = 0;
  CheckpointBytes checkpoint;
  double parameters = 0;
  CheckpointPath path;
  bool shared_storage = false;
  Seconds write{};
  Failures failures;
  Goodput goodput;
  double devices = 0;
  int nodes = 0;
  double data_bytes = 0;  // that a step reads
  BytesPerSecond data_rate{}, read{};
  std::string_view failures_source{};  // empty: the user states them

  bool ends() const { return goodput.ends(); }
  // Of a training that ends.
  double ideal_days() const { return steps * step.value / kSecondsPerDay; }
  Seconds time() const { return {days() * kSecondsPerDay}; }
  double days() const { return ideal_days() / goodput.effective; }
  double node_hours() const { return days() * 24 * nodes; }
  double device_hours() const { return days() * 24 * devices; }
};

// "0.52", "12.3K": GPU-hours, money
std::string amount_words(double amount);
// "0.52 GPU-hours", "1 GPU-hour", "12.3k GPU-hours"
std::string hours_words(double hours);

// "42.0 min", "3.1 h", "12.5 days"
std::string run_words(Seconds time);

// The same of a training, which may never end: "never: a failure every 1.00 s".
std::string run_words(const GoodputAnswer& answer);

// Throws Error where the nodes have no drives and no storage is stated. Only nodes and devices that
// the Job uses count.
GoodputAnswer find_goodput(const Job& job, double parameters, std::int64_t vocab,
                           const Cluster& cluster, Seconds period, double tokens,
                           const FailureSettings& settings);

Sheet goodput_sheet(const GoodputAnswer& answer, const RunningCost& cost, const std::string& title);
// The 54 days of Llama 3 405B [Dubey24 sec 3.3.4].
Sheet published_goodput_sheet();

}  // namespace zplan
