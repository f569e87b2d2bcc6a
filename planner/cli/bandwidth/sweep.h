// The step of a plan where one kind of link is slower or faster than the cluster's, everything else
// as it is: each point is simulated.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/cost/tier_traffic.h"
#include "sim/simulate.h"

namespace zplan {

inline constexpr std::array<double, 5> kSweepFactors{0.25, 0.5, 1, 2, 4};
inline constexpr std::size_t kSweepAsIs = 2;  // the factor 1

// What is changed together: links that lie one after the other on the same way.
enum class LinkGroup : std::uint8_t { kPeers, kNetwork, kPcie, kHostMemory, kSockets, kDrives };
std::string_view name(LinkGroup group);  // "PCIe"
// Of a CostLink's kind; nothing: no such links, or their rates are measured times of cores.
std::optional<LinkGroup> group_of(std::string_view link_kind);

// What was measured follows as hwprofiles/quantities.h says. Nothing changes where there are no
// such links.
Cluster with_rate(Cluster cluster, LinkGroup group, double factor);

struct SweepPoint {
  Seconds step{};
  Seconds exposed{};  // of the transfers of the hop
};
struct Sweep {
  Hop hop{};
  LinkGroup group{};
  std::string link;  // that limits the hop
  std::array<SweepPoint, kSweepFactors.size()> points;
};

// Where transfers of a hop hold up the stage with the busiest compute lane.
Seconds exposed_of(const sim::TimeSplit& split, Hop hop);

// One for each hop of the traffic whose link is known. `as_is`: on the cluster as it is.
std::vector<Sweep> sweep_links(const Job& job, const Cluster& cluster,
                               const std::vector<TierTraffic>& traffic, const sim::SimResult& as_is,
                               int threads);

}  // namespace zplan
