// The 16 values that a code of 4 bits stands for, times the scale of its block: 64 neighbours in
// the flat unit, whose greatest magnitude the scale is.
//
// NormalFloat [Dettmers23 Appendix E]: quantiles of a normal distribution, with 0 and both ends.
// The four-bit floats of the same authors: a sign and seven magnitudes, the greatest of them 1, the
// least of them a 192nd. A code is that of the nearest value, of two as near the lower one. A byte
// holds the codes of two neighbours, the first in its upper half.
//
// A scale of 8 bits is so many 255ths of the greatest scale among its 256 neighbours: the constant.
// [Dettmers23 sec 3] has 8-bit floats of the scales less their mean: as many bits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

namespace zplan::exec {

inline constexpr std::int64_t kCodeBlock = 64;          // values that share a scale
inline constexpr std::int64_t kScalesOfConstant = 256;  // and scales of 8 bits a constant

using CodeTable = std::array<double, 16>;  // by code

inline constexpr CodeTable kNormalFloat{-1.0,
                                        -0.6961928009986877,
                                        -0.5250730514526367,
                                        -0.39491748809814453,
                                        -0.28444138169288635,
                                        -0.18477343022823334,
                                        -0.09105003625154495,
                                        0.0,
                                        0.07958029955625534,
                                        0.16093020141124725,
                                        0.24611230194568634,
                                        0.33791524171829224,
                                        0.44070982933044434,
                                        0.5626170039176941,
                                        0.7229568362236023,
                                        1.0};
// The upper bit is the sign.
inline constexpr CodeTable kFourBitFloat{
    0.0,  1.0 / 192,  2.0 / 3,  1.0,  1.0 / 3,  1.0 / 2,  1.0 / 6,  1.0 / 4,
    -0.0, -1.0 / 192, -2.0 / 3, -1.0, -1.0 / 3, -1.0 / 2, -1.0 / 6, -1.0 / 4};
constexpr const CodeTable& code_table(bool is_fp4) { return is_fp4 ? kFourBitFloat : kNormalFloat; }

// Finds the code of a value over its scale. Zero is code 0 of the floats, never its negative.
inline unsigned nearest_code(const CodeTable& table, double value) {
  unsigned best = 0;
  for (unsigned code = 1; code < table.size(); ++code) {
    const double distance = std::abs(table[code] - value), least = std::abs(table[best] - value);
    if (distance < least || (distance == least && table[code] < table[best])) best = code;
  }
  return best;
}

inline double greatest_magnitude(std::span<const double> values) {
  double greatest = 0;
  for (const double value : values) greatest = std::max(greatest, std::abs(value));
  return greatest;
}

// Two codes a byte; the number of values is even.
inline void encode_block(const CodeTable& table, std::span<const double> values, double scale,
                         std::uint8_t* codes) {
  const auto code = [&](std::size_t i) {
    return nearest_code(table, scale > 0 ? values[i] / scale : 0.0);
  };
  for (std::size_t i = 0; i < values.size(); i += 2)
    codes[i / 2] = static_cast<std::uint8_t>(code(i) << 4U | code(i + 1));
}

inline constexpr double kScaleSteps = 255;
inline std::uint8_t scale_code(double scale, double constant) {
  return static_cast<std::uint8_t>(constant > 0 ? std::nearbyint(scale / constant * kScaleSteps)
                                                : 0.0);
}

}  // namespace zplan::exec
