// Which counter each random number of a training run has. Nothing here depends on ranks, sharding
// or threads: an element of a tensor has one initial value, a sample number one random word.
//   initial value of element i of tensor NAME: counter (low i, high i, fnv1a32(NAME), 0)
//   n-th draw of the data order:               counter (low n, high n, fnv1a32("data"), 1)
//   what becomes of token p of sample n, masked: counter (low n, high n, p, 2)
//   key (low seed, high seed)
#pragma once

#include <cstdint>
#include <string_view>

#include "planner/core/hash.h"
#include "planner/core/philox.h"

namespace zplan {

constexpr std::uint32_t low32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high32(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}
constexpr PhiloxKey seed_key(std::uint64_t seed) { return {low32(seed), high32(seed)}; }

// The initial values of one tensor.
class TensorDraws {
 public:
  TensorDraws(std::uint64_t seed, std::string_view tensor_name)
      : key_(seed_key(seed)), name_hash_(fnv1a32(tensor_name)) {}

  PhiloxCounter words(std::uint64_t element) const {
    return philox4x32({low32(element), high32(element), name_hash_, 0}, key_);
  }
  double normal(std::uint64_t element) const { return normal_from(words(element)); }

 private:
  PhiloxKey key_;
  std::uint32_t name_hash_;
};

// Of two words the first is the lower.
constexpr std::uint64_t first_64(const PhiloxCounter& words) {
  return words[0] | (static_cast<std::uint64_t>(words[1]) << 32);
}

constexpr std::uint64_t data_draw(std::uint64_t seed, std::uint64_t n) {
  return first_64(philox4x32({low32(n), high32(n), fnv1a32("data"), 1}, seed_key(seed)));
}

constexpr PhiloxCounter mask_draws(std::uint64_t seed, std::uint64_t sample, std::uint32_t token) {
  return philox4x32({low32(sample), high32(sample), token, 2}, seed_key(seed));
}

}  // namespace zplan
