// What puts the heads of latent attention together, and takes their gradients apart, on every
// device. A query has a part of n elements and one of r that carries its position; a key has the
// like, and shares the latter with the keys of all heads; a value has v. T is the compute type.
#pragma once

#include "exec/kernels/arguments.h"

namespace zplan::exec {

struct LatentHeadsShape {
  std::int64_t batch, sequence, heads;
  std::int64_t nope, rope, value;  // n, r, which is even, and v
  double theta = 0;                // base of the rotary angles [Su21]; 0: nothing turns
  std::int64_t first = 0;          // position of the first token

  constexpr std::int64_t key() const { return nope + rope; }
  constexpr std::int64_t columns() const { return heads * (2 * key() + value); }  // of qkv
};

template <typename T>
struct LatentHeadsForward {
  T* qkv;         // [b, s, columns], overwritten: queries, keys, values
  const T* q;     // [b, s, a, n + r]
  const T* kv;    // [b, s, a, n + v]
  const T* rope;  // [b, s, r]
};

template <typename T>
struct LatentHeadsBackward {
  T* dq;     // [b, s, a, n + r], overwritten
  T* dkv;    // [b, s, a, n + v], overwritten
  T* drope;  // [b, s, r]
  const T* dqkv;
  bool accumulate_drope;  // false overwrites, true adds
};

}  // namespace zplan::exec
