// What collectives of a device's library take: constants of a formula within one node, and measured
// times. Both are tables of hwprofiles/kernels: collectives_constants.csv has one row per family of
// devices, fitted to the measured files beside it (tests/fit/collective_constants.py);
// collectives_NAME.csv is measured. The formula is in planner/cost/collective_time.h.
//
// Of a measured file the newest rows count: those of the highest version in `source`, and of equal
// ones those without '@', which names an older library that ran instead; 16-bit ones, since 8-bit
// all-reduces cannot use the switches (NVLS). The times of one collective on one group are made to
// grow with the bytes: neighbours that fall are replaced by their geometric mean, weighted alike.
// A file zplan.hw/1 may bring curves of its own, also over nodes (measured_curves.h).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/time_curve.h"
#include "planner/core/units.h"

namespace zplan {

// Constants of one family. "Low": the protocols LL and LL128, which are not told apart.
struct CollectiveConstants {
  std::string family;     // "h100_sxm"
  BytesPerSecond link{};  // peer link on paper, one direction; PCIe where there is none
  Seconds low_base{}, low_hop{};
  double low_share = 1;  // of the rate of the protocol Simple
  Seconds base{}, hop{};
  std::array<BytesPerSecond, 3> rates{};  // of a ring's step in groups of 2, 4 and 8
  double own = 0;  // time of the own part, which is only copied, over others'
  double own_all_reduce = 0;
  double root = 0;  // cutting into pieces: this x sqrt(us of moving), in us
  Seconds nvls_base{};
  BytesPerSecond nvls{};   // 0: the switches do not add up
  double nvls_root = 0;    // cutting into pieces: this x sqrt(GPUs x us of moving), in us
  int nvls_channels = 16;  // over nodes
  // All-to-alls have constants of their own, in the units of those of rings.
  Seconds pair_low_base{}, pair_base{};
  double pair_low_share = 1, pair_own = 0, pair_root = 0;
  std::array<BytesPerSecond, 3> pair_rates{};
  bool plain = false;  // no protocols: a start, hops and rates alone
};

enum class MeasuredCollective : std::uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllToAll
};
inline constexpr std::string_view kMeasuredCollectives[] = {
    "all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce", "all_to_all"};
constexpr std::string_view name(MeasuredCollective kind) {
  return kMeasuredCollectives[static_cast<std::size_t>(kind)];
}
std::optional<MeasuredCollective> find_measured_collective(std::string_view name);

// One collective among so many ranks, as many in each of the nodes.
struct MeasuredGroup {
  MeasuredCollective kind = MeasuredCollective::kAllGather;
  int ranks = 1, nodes = 1;
  auto operator<=>(const MeasuredGroup&) const = default;
};

using CollectiveCurve = TimeCurve;  // by bytes of the whole buffer

struct CollectiveProfile {
  CollectiveConstants constants;
  bool own_constants = true;  // those of this very device or link; else of PCIe at another's rate
  std::string source;         // of the measured rows that count: "nccl-2.29.2"
  std::map<MeasuredGroup, CollectiveCurve> curves;

  // Of the measured group nearest in ranks within one node; of several nodes nearest in nodes,
  // among groups with as many ranks in each. `group` becomes the one found; nullptr: none.
  const CollectiveCurve* nearest(MeasuredGroup& group) const;
  bool reaches_over_nodes() const;
};

// Returns the constants of each family as fitted.
std::vector<CollectiveConstants> collective_families();

// Where devices meet.
struct CollectiveLinks {
  BytesPerSecond peer{};  // on paper, per direction; 0: none
  BytesPerSecond pcie{};  // the same
  // No device reads or writes another one's memory: what it sends is written to the host's memory
  // and read from there.
  bool staged = false;
  bool sums = true;  // switches of these links may add up (NVLS)
};

// Returns the constants of the family `own` where it is among these, else of one with such a link,
// else what lies between the two with the nearest links; all rates in proportion to the link.
CollectiveConstants nearest_constants(const std::vector<CollectiveConstants>& families,
                                      std::string_view own, const CollectiveLinks& links);

// `tables`: the end of the names of the chip's measured files, empty where it has none. They count
// where the chip's links are those that were measured: a chip of PCIe cards and of boards with peer
// links has one name. The constants are the nearest ones of all families.
std::shared_ptr<const CollectiveProfile> collective_profile(std::string_view tables,
                                                            const CollectiveLinks& links);

}  // namespace zplan
