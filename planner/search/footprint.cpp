#include "planner/search/footprint.h"

#include <algorithm>

namespace zplan {

void Footprint::add(const Declared& declared) {
  const Buffer& buffer = declared.buffer;
  const auto bytes =
      static_cast<double>(round_up(buffer.slot_size, alignment(buffer.tier)).value) * buffer.slots;
  OfTier& tier = tiers_[static_cast<std::size_t>(buffer.tier)];
  const auto held = [&](auto count, std::initializer_list<Moment> moments) {
    tier.used |= 1U << static_cast<unsigned>(count);
    for (const Moment moment : moments) tier.rows[static_cast<std::size_t>(count)][moment] += bytes;
  };
  const bool by_unit = declared.per == Per::kUnit;
  switch (declared.lives) {
    case Lives::kStep:
      return held(declared.per, {kUpdate, kInputs, kWeights, kHead});
    case Lives::kToUpdate:
      held(declared.per, {kUpdate});
      if (by_unit) held(Count::kFilledUnit, {kInputs});
      return;
    case Lives::kToBackward:
      if (!by_unit) return held(declared.per, {kInputs, kWeights, kHead});
      held(declared.per, {kHead});
      return held(Count::kLoopingUnit, {kInputs});
    case Lives::kIntoBackward:
      held(declared.per, {kWeights, kHead});
      return held(Count::kRestingLayer, {kInputs});
    case Lives::kInputs:
      return held(declared.per, {kInputs});
    case Lives::kWeights:
      held(declared.per, {kWeights});
      return held(Count::kWholeBackward, {kInputs});
    case Lives::kHead:
      return held(declared.per, {kHead});
    case Lives::kToHead:
      return held(Count::kBackwardFollows, {kHead});
    case Lives::kToHeadApart:
      return held(Count::kHeadApart, {kHead});
    case Lives::kBriefly:
      return;
  }
}

Footprint& Footprint::operator+=(const Footprint& other) {
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    OfTier& own = tiers_[tier];
    const OfTier& more = other.tiers_[tier];
    own.used |= more.used;
    more.each_used([&](std::size_t count) {
      for (std::size_t i = 0; i < kMoments; ++i) own.rows[count][i] += more.rows[count][i];
    });
  }
  return *this;
}

Footprint::Sums Footprint::sums(const Counts& counts) const {
  Sums sums{};
  for (std::size_t tier = 0; tier < kTierCount; ++tier)
    tiers_[tier].each_used([&](std::size_t count) {
      const Row& row = tiers_[tier].rows[count];
      for (std::size_t i = 0; i < kMoments; ++i) sums[tier][i] += counts.of[count] * row[i];
    });
  return sums;
}

TierBytes Footprint::fullest(const Sums& sums, bool weights_apart) {
  TierBytes result;
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    const Row& sum = sums[tier];
    double most = std::max({sum[kUpdate], sum[kInputs], sum[kHead]});
    if (weights_apart) most = std::max(most, sum[kWeights]);
    const bool beyond = most >= static_cast<double>(kMostBytes.value);
    result[tier] = beyond ? kMostBytes : Bytes{static_cast<std::int64_t>(most)};
  }
  return result;
}

}  // namespace zplan
