// Strong unit types. Exact quantities (bytes, flop, simulated time) are 64-bit integers, rates and
// measured seconds are doubles. GB = 1e9 bytes, GiB = 2^30 bytes. Flops counts floating-point
// operations (flop); FlopsPerSecond is flop/s.
#pragma once

#include <compare>
#include <cstdint>

namespace zplan {

// A number with a unit. Tag makes each unit its own type; no conversion between units is implicit.
template <typename Tag, typename Rep>
struct Quantity {
  Rep value{};

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return {a.value * k}; }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return {a.value * k}; }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return {a.value / k}; }
  constexpr Quantity& operator+=(Quantity b) {
    value += b.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity b) {
    value -= b.value;
    return *this;
  }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, std::int64_t>;
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;
using SimTime = Quantity<struct SimTimeTag, std::int64_t>;  // picoseconds

constexpr Seconds operator/(Bytes b, BytesPerSecond r) {
  return {static_cast<double>(b.value) / r.value};
}
constexpr Seconds operator/(Flops f, FlopsPerSecond r) {
  return {static_cast<double>(f.value) / r.value};
}

inline constexpr double kPicosecondsPerSecond = 1e12;

// Rounds to the nearest picosecond; the one place where seconds become simulated time.
constexpr SimTime to_sim_time(Seconds s) {
  return {static_cast<std::int64_t>(s.value * kPicosecondsPerSecond + 0.5)};
}
constexpr Seconds to_seconds(SimTime t) {
  return {static_cast<double>(t.value) / kPicosecondsPerSecond};
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}
// The positive multiple of `multiple` nearest to `value`; the greater of two equally near.
constexpr std::int64_t nearest_multiple(std::int64_t value, std::int64_t multiple) {
  const std::int64_t times = (value + multiple / 2) / multiple;
  return (times < 1 ? 1 : times) * multiple;
}
constexpr Bytes round_up(Bytes a, Bytes multiple) { return {round_up(a.value, multiple.value)}; }

}  // namespace zplan
