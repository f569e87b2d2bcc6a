#include "planner/cli/run/tier_traffic.h"

#include <fmt/format.h>

#include "planner/core/quantity.h"
#include "planner/cost/step_totals.h"

namespace zplan {
namespace {

// Of the copies on a lane.
Bytes moved(const Job& job, Lane lane) {
  Bytes sum{0};
  for (const RankClass& c : job.classes) {
    const std::vector<std::int64_t> instances = instances_per_step(c.program);
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const Node& node = c.program.nodes[i];
      if (node.kind != OpKind::kCopy || node.lane != lane) continue;
      sum += c.program.operands(node)[0].bytes() * instances[i] * std::int64_t{job.replicas()};
    }
  }
  return sum;
}

BytesPerSecond rate(Bytes bytes, Seconds time) {
  return {static_cast<double>(bytes.value) / time.value};
}

}  // namespace

std::vector<TierTraffic> tier_traffic(const Job& job) {
  std::vector<TierTraffic> all;
  for (const TierTraffic& tier :
       {TierTraffic{Tier::kCpu, moved(job, Lane::kH2d), moved(job, Lane::kD2h)},
        TierTraffic{Tier::kNvme, moved(job, Lane::kIoRead), moved(job, Lane::kIoWrite)}})
    if ((tier.in + tier.out).value > 0) all.push_back(tier);
  return all;
}

std::string words_of(const std::vector<TierTraffic>& traffic, Seconds step) {
  std::string words;
  for (const TierTraffic& tier : traffic)
    words += fmt::format(", {} {} in, {} out", name(tier.tier), format_rate(rate(tier.in, step)),
                         format_rate(rate(tier.out, step)));
  return words;
}

}  // namespace zplan
