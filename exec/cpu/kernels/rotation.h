// Rotary positions [Su21] of pairs whose halves lie apart: what the CPU kernels that turn them
// share. Pair i of r / 2 turns by position theta^(-2 i / r).
#pragma once

#include <cmath>
#include <cstdint>

namespace zplan::exec::cpu {

inline constexpr std::int64_t kPairs = 64;  // worked on at a time

// Angles per position of pairs [begin, begin + n); theta 0: none.
struct Rates {
  double of[kPairs];

  Rates(double theta, std::int64_t elements, std::int64_t begin, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i)
      of[i] = theta > 0 ? std::pow(theta, -2.0 * static_cast<double>(begin + i) /
                                              static_cast<double>(elements))
                        : 0.0;
  }
};

// Of n pairs at a position; direction -1 turns back.
template <typename C>
struct Angles {
  C cosine[kPairs], sine[kPairs];

  Angles(const Rates& rates, std::int64_t position, std::int64_t n, int direction,
         std::int64_t stretch = 1) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle =
          static_cast<double>(position) / static_cast<double>(stretch) * rates.of[i];
      cosine[i] = static_cast<C>(std::cos(angle));
      sine[i] = static_cast<C>(direction * std::sin(angle));
    }
  }
};

// The two halves of n pairs, turned on the way, which may lead nowhere else.
template <typename In, typename Out, typename C>
void turn(const In* first, const In* second, Out* to_first, Out* to_second, std::int64_t n,
          const Angles<C>& angles) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const C a = static_cast<C>(first[i]), b = static_cast<C>(second[i]);
    to_first[i] = static_cast<Out>(a * angles.cosine[i] - b * angles.sine[i]);
    to_second[i] = static_cast<Out>(b * angles.cosine[i] + a * angles.sine[i]);
  }
}

}  // namespace zplan::exec::cpu
