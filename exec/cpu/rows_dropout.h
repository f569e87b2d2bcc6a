// Rows of the dispatch table: dropout. Internal to exec/cpu.
#pragma once

#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/dropout.h"
#include "exec/host_kernels.h"

namespace zplan::exec::cpu {

// Attributes of the kernels that draw, in their order.
enum DropoutAttribute : std::size_t {
  kDropoutSequences,
  kDropoutFirst,
  kDropoutLayers,
  kDropoutTokens,
  kDropoutRow,
  kDropoutBegin,
  kDropoutFirstHead,
  kDropoutHeadsPerTile
};

// Nothing is dropped of what validates.
inline double dropout_rate(const Call& c) {
  return c.services->validates(c.run_step) ? 0 : c.services->train().dropout;
}

inline DropoutDraws dropout_draws(const Call& c) {
  const std::int64_t together = c.attributes[kDropoutLayers];
  const std::int64_t layer = c.env.layer * together + c.node->member % together;
  const auto part = static_cast<std::uint8_t>(c.node->role.part);
  return {.key = dropout_key(c.services->train().seed, layer, part),
          .step = static_cast<std::uint32_t>(c.step),
          .rate = dropout_rate(c)};
}

// Of tokens [T, h] or of scores [b, a, s, s].
inline DropoutRows dropout_rows(const Call& c) {
  const AttributeValues& x = c.attributes;
  const Shape& s = c[0].shape();
  const std::int64_t first = c.env.micro * x[kDropoutSequences] + x[kDropoutFirst];
  if (s.rank == 2)
    return {.rows = s[0],
            .columns = s[1],
            .first_sequence = first,
            .inner = 1,
            .per_inner = x[kDropoutTokens],
            .first_row = x[kDropoutRow],
            .first_inner = x[kDropoutBegin]};
  return {.rows = s[0] * s[1] * s[2],
          .columns = s[3],
          .first_sequence = first,
          .inner = s[1],
          .per_inner = s[2],
          .first_inner = x[kDropoutFirstHead] + c.env.tile * x[kDropoutHeadsPerTile],
          .of_heads = true};
}

template <typename T>
struct DropoutForwardRow {
  static void run(const Call& c, GemmCache&) {
    dropout_forward(dropout_rows(c), dropout_draws(c), c[2].as<T>(), c[1].as<std::uint8_t>(),
                    c[0].as<T>());
  }
};

template <typename T>
struct DropoutBackwardRow {
  static void run(const Call& c, GemmCache&) {
    dropout_backward(c[0].elements(), dropout_rate(c), c[2].as<T>(), c[0].as<T>(),
                     c[1].as<std::uint8_t>());
  }
};

template <typename T>
struct DropoutResidualAddRow {
  static void run(const Call& c, GemmCache&) {
    dropout_residual_add(dropout_rows(c), dropout_draws(c), c[2].as<T>(), c[3].as<std::uint8_t>(),
                         c[0].as<T>(), c[1].as<T>(),
                         c.operands.size() > 4 ? c[4].as<T>() : nullptr);
  }
};

template <typename T>
constexpr auto dropout_rows_of() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      {K::kDropoutForward, nullptr, DropoutForwardRow<T>::run},
      {K::kDropoutBackward, nullptr, DropoutBackwardRow<T>::run},
      {K::kDropoutResidualAdd, nullptr, DropoutResidualAddRow<T>::run},
  });
}

}  // namespace zplan::exec::cpu
