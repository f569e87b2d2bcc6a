// Device code of sinks.h. Lanes of a warp have a row of a head; kWidth divides its elements. There
// are fewer than 2^31 rows.
#pragma once

#include "exec/cuda/kernels/approximations.cuh"
#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/lane_rows.cuh"
#include "exec/cuda/kernels/sinks.h"

namespace zplan::exec::cuda {

// Where the log-sum-exp of a token's head stands in [b, a, s].
__device__ inline std::int64_t lse_at(const SinksShape& s, std::int64_t token, std::int64_t head) {
  const auto index = static_cast<unsigned>(token), sequence = static_cast<unsigned>(s.sequence);
  return (index / sequence * s.heads + head) * s.sequence + index % sequence;
}

// A row of a head on the way: the lane's first pack, its log-sum-exp and sink.
template <typename T, int kWidth>
struct SinkRow {
  PackBits<T, kWidth> out;
  float* lse;
  float before, sink;
};

inline constexpr int kSinkRowsAhead = 4;  // [assumed] rows of a lane under way

// out [b, s, a, v], lse [b, a, s]
template <typename T, int kWidth>
__global__ void sinks_forward_kernel(SinksForward<T> x, SinksShape s, int lanes) {
  const LaneRow own = lane_row(lanes);
  const auto heads = static_cast<unsigned>(s.heads);
  const int columns = static_cast<int>(s.value_dim), first = own.place * kWidth;
  const auto read = [&](std::int64_t row) {
    SinkRow<T, kWidth> ahead{};
    if (first < columns) ahead.out = load_bits<kWidth>(x.out + row * s.value_dim + first);
    const unsigned token = static_cast<unsigned>(row) / heads;
    const unsigned head = static_cast<unsigned>(row) - token * heads;
    ahead.lse = x.lse + lse_at(s, token, head);
    ahead.before = *ahead.lse;
    ahead.sink = widen(x.sinks[head]);
    return ahead;
  };
  const auto write = [&](std::int64_t row, const SinkRow<T, kWidth>& ahead) {
    const float most = fmaxf(ahead.before, ahead.sink);
    const float of_keys = approximate_exp(ahead.before - most);
    const float sum = of_keys + approximate_exp(ahead.sink - most);
    const float kept = of_keys * approximate_inverse(sum);
    T* out = x.out + row * s.value_dim;
    for_lane_columns<kWidth>(own, columns, [&](int j) {
      auto v = j == first ? widen(ahead.out) : load<kWidth>(out + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v.at[k] *= kept;
      store<kWidth>(out + j, v);
    });
    if (own.place == 0) *ahead.lse = most + logf(sum);
  };
  for_lane_rows_ahead<kSinkRowsAhead>(own, s.batch * s.sequence * s.heads, read, write);
}

// What a token adds to the gradient of a sink.
template <typename T, int kWidth>
struct SinkTerm {
  PackBits<T, kWidth> dout, out;
  float lse;
};

// [assumed] tokens of a thread under way.
inline constexpr int kSinkTokensAhead = 4;

// sums [pieces, a] over so many tokens each; a head's lanes have a piece of the tokens.
template <typename T, typename G, int kWidth>
__global__ void sinks_backward_kernel(float* sums, SinksBackward<T, G> x, SinksShape s, int lanes,
                                      Pieces pieces) {
  const LaneRow own = lane_row(lanes);
  const std::int64_t head = own.index % s.heads, piece = own.index / s.heads;
  const std::int64_t tokens = s.batch * s.sequence, begin = piece * pieces.rows;
  const std::int64_t end = begin + pieces.rows < tokens ? begin + pieces.rows : tokens;
  const float sink = widen(x.sinks[head]);
  float sum = 0;
  for_lane_columns<kWidth>(own, static_cast<int>(s.value_dim), [&](int j) {
    const auto read = [&](std::int64_t token) {
      const std::int64_t at = (token * s.heads + head) * s.value_dim + j;
      return SinkTerm<T, kWidth>{load_bits<kWidth>(x.dout + at), load_bits<kWidth>(x.out + at),
                                 x.lse[lse_at(s, token, head)]};
    };
    for_ahead<kSinkTokensAhead>(begin, end, std::int64_t{1}, read,
                                [&](std::int64_t, const auto& term) {
                                  const auto slope = widen(term.dout), out = widen(term.out);
                                  float product = 0;
#pragma unroll
                                  for (int k = 0; k < kWidth; ++k)
                                    product += slope.at[k] * out.at[k];
                                  sum -= expf(sink - term.lse) * product;
                                });
  });
  sum = sum_of_lanes(own, sum);
  if (own.place == 0 && piece < pieces.count) sums[own.index] = sum;
}

}  // namespace zplan::exec::cuda
