// What the best plan is: objectives beside the least time of a step, and what a user states for
// them.
//
//   fastest           the least time of a step, on all devices of the cluster
//   cheapest          the least device-hours of a step, over numbers of devices (rank_counts.h)
//   fewest-gpus       on the fewest devices on which some plan fits, the fastest (rank_counts.h)
//   longest-sequence  of the longest sequences with which some plan fits, the fastest
//                     (longest_sequence.h)
//   most-headroom     the least GPU memory, of plans not much slower than the fastest
//                     (most_headroom.h)
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

namespace zplan {

enum class Objective : std::uint8_t {
  kFastest,
  kCheapest,
  kFewestGpus,
  kLongestSequence,
  kMostHeadroom
};
inline constexpr std::string_view kObjectiveNames[] = {"fastest", "cheapest", "fewest-gpus",
                                                       "longest-sequence", "most-headroom"};
inline constexpr std::string_view name(Objective objective) {
  return kObjectiveNames[static_cast<std::size_t>(objective)];
}

// [assumed] how much slower than the fastest a plan with more memory left may be.
inline constexpr double kUsualWithin = 0.1;

struct ObjectiveQuestion {
  Objective what = Objective::kFastest;
  double within = -1;  // of most-headroom: slower by this share at most; negative: as usual
  double price = -1;   // of cheapest: of a device-hour; negative: unknown
  bool has_profile_price = false;  // it is that of the profile
  double tokens = 0;               // of cheapest: of a whole run; 0: not asked
};

// How a question that tries one case after the other is run.
struct QuestionRun {
  int threads = 1;
  std::function<void(const std::string&)> progress{};  // what is tried now
  std::function<bool()> stop{};
  bool stopped() const;
  void tell(const std::string& line) const;
};

}  // namespace zplan
