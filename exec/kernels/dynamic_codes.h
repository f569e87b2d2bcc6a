// The 256 values that a byte stands for in 8-bit optimizer states: the dynamic tree of
// [Dettmers22 sec 1.3, 2.2], as its authors' library numbers it, in ascending order from 0 on.
//
// Magnitudes of 10^(i - 6), i = 0..6, each cut into equal steps between a tenth of it and itself,
// whose middles are the values: 2^i of them with a sign, 2^(i + 1) without. With them come 0 and 1.
// First moments have a sign, second ones do not. A state is 0 where its block's scale is, whatever
// its byte.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace zplan::exec {

// T: double or float.
template <typename T>
struct DynamicCodes {
  std::array<T, 256> values{};
  std::array<T, 255> middles{};  // between neighbours

  explicit constexpr DynamicCodes(bool has_sign) {
    std::array<double, 256> exact{};
    std::size_t n = 0;
    exact[n++] = 0;
    exact[n++] = 1;
    double size = 1e-6;
    for (int i = 0; i < 7; ++i, size *= 10) {
      const int steps = 1 << (has_sign ? i : i + 1);
      for (int j = 0; j < steps; ++j) {
        const double value = size * (0.1 + 0.9 * (2 * j + 1) / (2 * steps));
        exact[n++] = value;
        if (has_sign) exact[n++] = -value;
      }
    }
    std::sort(exact.begin(), exact.end());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(exact[i]);
    for (std::size_t i = 0; i < middles.size(); ++i) middles[i] = (values[i] + values[i + 1]) / 2;
  }

  // The number of the nearest value; of two that are as near the lower one.
  std::uint8_t code(T x) const {
    return static_cast<std::uint8_t>(std::lower_bound(middles.begin(), middles.end(), x) -
                                     middles.begin());
  }
};

template <typename T>
inline constexpr DynamicCodes<T> kSignedCodes{true};
template <typename T>
inline constexpr DynamicCodes<T> kUnsignedCodes{false};

}  // namespace zplan::exec
