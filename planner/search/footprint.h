// Sums of what the parts of lower declare (planner/lower/declared.h), in bytes, as multiples of
// what a stage counts.
//
// Held together are bytes at a moment. Four are known, the greatest counts for each tier:
//   update   all states: parameters, gradients, optimizer
//   inputs   while backward comes to a layer's activation function: states, gradients once they
//            persist or have come from the layers before; what forward keeps for the micro-batches
//            in flight [Narayanan21 sec 2.2], or checkpoints and one replayed layer [Chen16]; units
//            of parameters and gradients at work and on their way
//   weights  the same in a pass for the gradients of weights, where backward comes in two parts
//   head     states, what forward keeps, logits, the gathered head
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "planner/lower/declared.h"
#include "planner/search/memory_use.h"

namespace zplan {

// What a stage counts: all of Per, then what holds of some stages only.
enum class Count : std::uint8_t {
  kOfPer = 14,
  kLoopingUnit = kOfPer,  // if backward begins in a piece of several, whose states are one buffer
  kFilledUnit,            // the same, if its first loop has several and fills their gradients
  kRestingLayer,          // as kLayerInFlight, without one at work that is alone in that loop
  kWholeBackward,         // once, if backward does not come in two parts
  kBackwardFollows,       // once, if a micro-batch goes backward as it has come to the head
  kHeadApart,             // as kHeadInFlight, if other passes come between
  kAll,
};
static_assert(static_cast<int>(Count::kOfPer) == static_cast<int>(Per::kFarOptimizer) + 1);
inline constexpr std::size_t kCounts = static_cast<std::size_t>(Count::kAll);

struct Counts {
  // [derived] exact up to 2^53, and no product of sizes overflows
  std::array<double, kCounts> of{};
  // There are passes for the gradients of weights alone while all that forward keeps is held.
  bool weights_apart = false;
  double& operator[](Per per) { return of[static_cast<std::size_t>(per)]; }
  double& operator[](Count count) { return of[static_cast<std::size_t>(count)]; }
};

class Footprint {
 public:
  void add(const Declared& declared);
  Footprint& operator+=(const Footprint& other);
  enum Moment : std::uint8_t { kUpdate, kInputs, kHead, kWeights, kMoments };
  using Row = std::array<double, kMoments>;
  // Bytes of each tier at each moment.
  using Sums = std::array<Row, kTierCount>;
  // Linear in each count.
  Sums sums(const Counts& counts) const;
  // The bytes that a stage holds at the fullest moment; beyond all reason they are kMostBytes.
  TierBytes of(const Counts& counts) const { return fullest(sums(counts), counts.weights_apart); }
  static TierBytes fullest(const Sums& sums, bool weights_apart);

 private:
  struct OfTier {
    std::array<Row, kCounts> rows{};
    std::uint32_t used = 0;  // a bit for each row: most hold nothing

    template <typename Visit>
    void each_used(const Visit& visit) const {
      for (std::uint32_t rest = used; rest != 0; rest &= rest - 1)
        visit(static_cast<std::size_t>(std::countr_zero(rest)));
    }
  };

  std::array<OfTier, kTierCount> tiers_{};
};

}  // namespace zplan
