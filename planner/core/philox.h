// Philox4x32-10: four random words from a 128-bit counter and a 64-bit key, no state [Salmon11].
// The same (counter, key) gives the same words everywhere, so every sharding draws equal values.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace zplan {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr int kRounds = 10;  // [Salmon11 Table 2]
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;  // [Salmon11]
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;              // [Salmon11]
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// A standard normal from the first two words (Box-Muller); the half keeps the logarithm finite.
inline double normal_from(const PhiloxCounter& words) {
  constexpr double kTwoTo32 = 4294967296.0;
  const double u1 = (words[0] + 0.5) / kTwoTo32;
  const double u2 = (words[1] + 0.5) / kTwoTo32;
  return std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2);
}

}  // namespace zplan
