#include <algorithm>
#include <map>
#include <numeric>

#include "planner/trace/rank_trace.h"

namespace zplan {
namespace {

constexpr std::size_t kMostLinks = 16;  // that a screen shows

// By nanosecond, how much the rate of a link changes.
using Changes = std::map<std::int64_t, double>;

struct Link {
  Changes changes;
  double bytes = 0;
};

class Rates {
 public:
  explicit Rates(const TraceLinks& links) : links_(links), all_(links.names.size()) {}

  void add(const RankSpans& rank, SimTime zero) {
    const auto& loads = links_.loads[static_cast<std::size_t>(rank.timeline().stage)];
    for (int l = 0; l < kLaneCount; ++l)
      for (const LaneSpan& s : rank.lane(static_cast<Lane>(l)))
        if (rank.shows(s.span->step))
          add(loads[s.at.node], 1, nanoseconds(s.span->start, zero),
              nanoseconds(s.span->end, zero));
    for (const FoldedSpan& fold : rank.folded()) {
      const Program& program = rank.program();
      for (std::size_t n = 0; n < program.nodes.size(); ++n) {
        const Node& node = program.nodes[n];
        if (node.lane != fold.lane || !is_within(program, node.block, fold.loop)) continue;
        const std::int64_t runs =
            runs_within(program, node.block, fold.loop) * (fold.last - fold.first + 1);
        add(loads[n], static_cast<double>(runs), nanoseconds(fold.start, zero),
            nanoseconds(fold.end, zero));
      }
    }
  }

  std::vector<TraceCounter> busiest() const {
    std::vector<std::size_t> order(all_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return all_[a].bytes > all_[b].bytes; });
    std::vector<TraceCounter> counters;
    for (const std::size_t link : order) {
      if (all_[link].bytes <= 0 || counters.size() == kMostLinks) break;
      counters.push_back({links_.names[link], "GB/s", points(all_[link].changes)});
    }
    return counters;
  }

 private:
  // Bytes per nanosecond are GB/s.
  void add(const std::vector<LinkLoad>& loads, double runs, std::int64_t start, std::int64_t end) {
    if (end <= start) return;
    for (const LinkLoad& load : loads) {
      Link& link = all_[load.link];
      const double rate = runs * load.bytes / static_cast<double>(end - start);
      link.bytes += runs * load.bytes;
      link.changes[start] += rate;
      link.changes[end] -= rate;
    }
  }

  // What rounding leaves of a sum that should be zero is no rate.
  static std::vector<TraceCounter::Point> points(const Changes& changes) {
    constexpr double kRoundoff = 1e-9;
    std::vector<TraceCounter::Point> points;
    double rate = 0, most = 0;
    for (const auto& [ns, change] : changes) {
      rate += change;
      most = std::max(most, rate);
      points.push_back({ns, rate < kRoundoff * most ? 0 : rate});
    }
    return points;
  }

  const TraceLinks& links_;
  std::vector<Link> all_;
};

}  // namespace

std::vector<TraceCounter> link_rates(const std::vector<RankSpans>& ranks, const TraceLinks& links,
                                     SimTime zero) {
  if (links.loads.empty()) return {};
  Rates rates(links);
  for (const RankSpans& rank : ranks) rates.add(rank, zero);
  return rates.busiest();
}

}  // namespace zplan
