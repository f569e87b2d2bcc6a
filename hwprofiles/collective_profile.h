// What collectives of a device's library take within one node: constants of a formula and measured
// times. Both are tables of hwprofiles/kernels: collectives_constants.csv has one row per family of
// devices, fitted to the measured files beside it (tests/fit/collective_constants.py);
// collectives_NAME.csv is measured. The formula is in planner/cost/collective_time.h.
//
// Of a measured file the newest rows count: those of the highest version in `source`, and of equal
// ones those without '@', which names an older library that ran instead; 16-bit ones, since 8-bit
// all-reduces cannot use the switches (NVLS). The times of one collective on one group are made to
// grow with the bytes: neighbours that fall are replaced by their geometric mean, weighted alike.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  BytesPerSecond nvls{};  // 0: the switches do not add up
};

enum class MeasuredCollective : std::uint8_t { kAllGather, kReduceScatter, kAllReduce };

// Times of one collective on one group by bytes of the whole buffer, ascending.
class CollectiveCurve {
 public:
  void add(double bytes, Seconds time);
  // Makes times ascend; after the last add().
  void settle();
  // Straight in log(time) over log(bytes); as at its ends beyond them.
  Seconds at(double bytes) const;
  double least() const;
  double most() const;
  std::size_t size() const { return points_.size(); }

 private:
  std::vector<std::pair<double, double>> points_;  // log(bytes), log(seconds)
};

struct CollectiveProfile {
  CollectiveConstants constants;
  bool own_constants = true;  // those of this very device or link; else of PCIe at another's rate
  std::string source;         // of the measured rows that count: "nccl-2.29.2"
  std::map<std::pair<MeasuredCollective, int>, CollectiveCurve> curves;  // by group size

  // Of the measured group nearest in size; nullptr: none. `ranks` becomes its size.
  const CollectiveCurve* nearest(MeasuredCollective kind, int& ranks) const;
};

// The constants of a family as fitted; nothing where there is none.
std::vector<CollectiveConstants> collective_families();

// `tables`: the end of the names of the device's measured files, empty where it has none; `peer`
// and `pcie`: links on paper, per direction; peer 0: none. A device without a family of its own
// takes the constants of the one whose link is nearest in rate, the rates in proportion to the
// link.
std::shared_ptr<const CollectiveProfile> collective_profile(std::string_view tables,
                                                            BytesPerSecond peer,
                                                            BytesPerSecond pcie);

}  // namespace zplan
