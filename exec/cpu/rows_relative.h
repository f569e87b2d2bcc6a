// Rows of the dispatch table: biases of scores by distance. Internal to exec/cpu.
#pragma once

#include <array>

#include "exec/cpu/kernels/relative_positions.h"
#include "exec/cpu/rows_attention.h"

namespace zplan::exec::cpu {

inline RelativeBuckets relative_buckets(const Call& c, const Operand& table) {
  return {table.shape()[0], c.attributes[0], c.attributes[1] != 0};
}
// Of a bias [a, r].
inline std::int64_t sequence_of(const Operand& bias) { return (bias.shape()[1] + 1) / 2; }

template <typename T>
inline constexpr auto read_relative_positions = [](const KernelCall& c, const auto& body) {
  body(relative_buckets(c, c[0]), c[0].shape()[1], sequence_of(c[1]), c[1].as<Compute<T>>(),
       c[0].as<T>());
};

template <typename T>
struct RelativePositionsGradientRow {
  static void run(const Call& c, GemmCache&) {
    with_gradient<T>(c[1], [&]<typename G>(G* dtable) {
      relative_positions_gradient<T>(relative_buckets(c, c[1]), c[1].shape()[1], sequence_of(c[0]),
                                     dtable, c[0].as<Compute<T>>(), c[1].adds());
    });
  }
};

template <typename T>
inline constexpr auto read_relative_scores = [](const KernelCall& c, const auto& body) {
  body(square_rows(c[0]), c[0].shape()[1], c[0].as<T>(), c[1].as<Compute<T>>());
};

template <typename T>
inline constexpr auto read_relative_scores_gradient = [](const KernelCall& c, const auto& body) {
  body(square_rows(c[0]), c[0].shape()[1], c[1].as<Compute<T>>(), c[0].as<T>());
};

template <typename T>
struct BiasedAttentionForwardRow : RuledForward<T, 2> {
  static void run(const Call& c, GemmCache&) {
    attention_forward<T>(RuledForward<T, 2>::shape(c),
                         {.out = c[2].as<T>(),
                          .lse = c[3].as<Compute<T>>(),
                          .qkv = c[0].as<T>(),
                          .bias = c[1].as<Compute<T>>()},
                         scratch(c[4]));
  }
};

template <typename T>
struct BiasedAttentionBackwardRow : RuledBackward<T> {
  static void run(const Call& c, GemmCache&) {
    attention_backward<T>(RuledBackward<T>::shape(c),
                          {.dqkv = c[5].as<T>(),
                           .dout = c[0].as<T>(),
                           .out = c[3].as<T>(),
                           .lse = c[4].as<Compute<T>>(),
                           .qkv = c[1].as<T>(),
                           .bias = c[2].as<Compute<T>>(),
                           .dbias = c[6].as<Compute<T>>()},
                          scratch(c[7]));
  }
};

template <typename T>
constexpr auto relative_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      row(K::kRelativePositions, read_relative_positions<T>,
          [](const auto&... x) { relative_positions<T>(x...); }),
      DispatchEntry{K::kRelativePositionsGradient, nullptr, RelativePositionsGradientRow<T>::run},
      row(K::kRelativeScores, read_relative_scores<T>,
          [](const auto&... x) { relative_scores<T>(x...); }),
      row(K::kRelativeScoresGradient, read_relative_scores_gradient<T>,
          [](const auto&... x) { relative_scores_gradient<T>(x...); }),
      prepared<DispatchEntry, BiasedAttentionForwardRow<T>>(K::kBiasedAttentionForward),
      prepared<DispatchEntry, BiasedAttentionBackwardRow<T>>(K::kBiasedAttentionBackward),
  });
}

}  // namespace zplan::exec::cpu
