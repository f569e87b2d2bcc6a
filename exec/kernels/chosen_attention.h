// Kernels of attention to chosen keys, and of the indexer that chooses them, take these on every
// device [DeepSeek25b sec 2.1]; planner/program/kernels/rows.h says what they compute.
#pragma once

#include <cstdint>

namespace zplan::exec {

struct IndexShape {
  std::int64_t batch, sequence;
  std::int64_t heads, head_size;  // n, e
  std::int64_t keys;              // i, of a query
};

template <typename T>
struct KeyChoice {
  std::int32_t* chosen;  // [b, s, i]
  const T* q;            // [b, s, n, e]
  const T* k;            // [b, s, e]
  const T* weights;      // [b, s, n]
};

// S: the type of statistics.
template <typename T, typename S>
struct KeyChoiceBackward {
  T* dq;                       // [b, s, n, e]
  T* dk;                       // [b, s, e]
  T* dweights;                 // [b, s, n]
  const S* given;              // [b, s, i], a sum over heads
  const std::int32_t* chosen;  // [b, s, i]
  const T* q;
  const T* k;
  const T* weights;
  double heads, ranks;  // of attention: of all ranks
  double scale;         // of the loss of a token
};

// Attention to the keys of qkv, side by side as in attention, that `chosen` names.
template <typename T, typename S>
struct ChosenForward {
  T* out;                      // [b, s, a, v]
  S* lse;                      // [b, a, s]
  const T* qkv;                // [b, s, c]
  const std::int32_t* chosen;  // [b, s, i]
  std::int64_t keys;           // i
};

template <typename T, typename S>
struct ChosenBackward {
  T* dqkv;                     // [b, s, c]
  const T* dout;               // [b, s, a, v]
  const T* out;                // [b, s, a, v]
  const S* lse;                // [b, a, s]
  const T* qkv;                // [b, s, c]
  const std::int32_t* chosen;  // [b, s, i]
  std::int64_t keys;           // i
};

template <typename T, typename S>
struct ChosenShares {
  S* given;                    // [b, s, i]
  const S* lse;                // [b, a, s]
  const T* qkv;                // [b, s, c]
  const std::int32_t* chosen;  // [b, s, i]
  std::int64_t keys;           // i
  bool adds;
};

}  // namespace zplan::exec
