// What is added to the scores of attention by the distance of key and query [Raffel20 sec 2.1]: of
// each head a number for each bucket of distances, which all layers of a stack share. A bias has
// these numbers for each distance, r = 2 s - 1 of them: key - query = i - (s - 1) at place i.
//
// Distances up to half of the buckets have one each, those beyond share the others by the logarithm
// of the distance, and from `distance` on all have the last. Both ways half of the buckets are of
// keys behind the query; else these have bucket 0, which no query sees.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

struct RelativeBuckets {
  std::int64_t buckets;   // n
  std::int64_t distance;  // from which on all are in the last
  bool both_ways;

  // Of a key so many places behind the query.
  std::int64_t of(std::int64_t behind) const;
};

// bias[a, r] = table[n, a] by bucket.
template <typename T>
void relative_positions(const RelativeBuckets& of, std::int64_t heads, std::int64_t sequence,
                        Compute<T>* bias, const T* table);
// dtable[n, a] (+)= sums of dbias[a, r] over the distances of each bucket.
template <typename T, typename G = T>
void relative_positions_gradient(const RelativeBuckets& of, std::int64_t heads,
                                 std::int64_t sequence, G* dtable, const Compute<T>* dbias,
                                 bool accumulate);

// Of so many heads of each sequence, scores[b, a, s, s] += bias. b a s^2 flop.
template <typename T>
void relative_scores(const SquareRows& shape, std::int64_t heads, T* scores,
                     const Compute<T>* bias);
// dbias += sums of dscores over sequences and pairs at the same distance. b a s^2 flop.
template <typename T>
void relative_scores_gradient(const SquareRows& shape, std::int64_t heads, Compute<T>* dbias,
                              const T* dscores);

}  // namespace zplan::exec::cpu
