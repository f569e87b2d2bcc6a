// Which keys a query of attention sees, and what becomes of its scores before their softmax:
//   score = q k / sqrt(divisor), then cap tanh(score / cap), then minus slope distance
// as the attributes of attention_forward say (planner/program/kernels/rows.h). Slopes of ALiBi:
// heads h = 1 .. n of a power of two n have 2^(-8 h / n); of other counts those beyond the power of
// two p below have the odd ones of 2 p heads, 2^(-4 (2 h - 1) / p) [Press22 sec 3].
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace zplan::exec {

struct AttentionRule {
  // Keys that a query sees before it, its own among them, and after it where it sees those; 0: no
  // limit.
  std::int64_t window = 0;
  double cap = 0;               // 0: none
  std::int64_t divisor = 0;     // 0: the size of a head
  std::int64_t slopes = 0;      // heads of the model that have one; 0: none
  std::int64_t first_head = 0;  // of the model
  bool both_ways = false;       // a query sees the keys after it, too

  bool bends() const { return cap != 0 || slopes != 0; }

  // Of queries and keys of heads of d elements.
  double scale(std::int64_t d) const {
    return 1.0 / std::sqrt(static_cast<double>(divisor == 0 ? d : divisor));
  }
  // Keys [begin, end) of s that a query sees.
  std::int64_t begin(std::int64_t query) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, query - window + 1);
  }
  std::int64_t end(std::int64_t query, std::int64_t s) const {
    if (!both_ways) return query + 1;
    return window == 0 ? s : std::min(s, query + window);
  }
  // Queries [first, last] of s that see a key.
  std::int64_t first_query(std::int64_t key) const {
    if (!both_ways) return key;
    return window == 0 ? 0 : std::max<std::int64_t>(0, key - window + 1);
  }
  std::int64_t last_query(std::int64_t key, std::int64_t s) const {
    return window == 0 ? s - 1 : std::min(s - 1, key + window - 1);
  }

  // Of the how-many-th head of those at hand.
  double slope(std::int64_t head) const {
    if (slopes == 0) return 0;
    const auto power =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(slopes)));
    const std::int64_t at = first_head + head;
    const double n = static_cast<double>(power);
    if (at < power) return std::exp2(-8.0 * static_cast<double>(at + 1) / n);
    return std::exp2(-4.0 * static_cast<double>(2 * (at - power) + 1) / n);
  }
};

}  // namespace zplan::exec
