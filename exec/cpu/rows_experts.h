// Rows of the dispatch table: routing to experts and their products. Internal to exec/cpu.
#pragma once

#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/experts.h"
#include "exec/cpu/kernels/grouped_gemm.h"
#include "exec/cpu/rows_linear.h"
#include "exec/kernels/read_experts.h"

namespace zplan::exec::cpu {

// x, w, counts, y.
template <typename T>
struct GroupedForwardRow {
  static GroupedShape shape(const Call& c) { return grouped_shape(c[0], c[3], c[2]); }
  static Bytes prepare(const Call& c, GemmCache&) { return grouped_scratch_bytes<T>(shape(c)); }
  static void run(const Call& c, GemmCache&) {
    grouped_forward(shape(c), c[3].as<T>(), c[0].as<T>(), c[1].as<T>(), c[2].as<std::int32_t>(),
                    c[3].adds(), scratch(c.operands.back()));
  }
};

// dy, w, counts, dx.
template <typename T>
struct GroupedInputRow {
  static GroupedShape shape(const Call& c) { return grouped_shape(c[3], c[0], c[2]); }
  static Bytes prepare(const Call& c, GemmCache&) { return grouped_scratch_bytes<T>(shape(c)); }
  static void run(const Call& c, GemmCache&) {
    grouped_input_gradient(shape(c), c[3].as<T>(), c[0].as<T>(), c[1].as<T>(),
                           c[2].as<std::int32_t>(), c[3].adds(), scratch(c.operands.back()));
  }
};

// x, dy, counts, dw.
template <typename T>
struct GroupedWeightRow {
  static GroupedShape shape(const Call& c) { return grouped_shape(c[0], c[1], c[2]); }
  static Bytes prepare(const Call& c, GemmCache&) { return grouped_scratch_bytes<T>(shape(c)); }
  static void run(const Call& c, GemmCache&) {
    with_gradient<T>(c[3], [&]<typename G>(G* dw) {
      grouped_weight_gradient(shape(c), dw, c[0].as<T>(), c[1].as<T>(), c[2].as<std::int32_t>(),
                              c[3].adds(), scratch(c.operands.back()));
    });
  }
};

// x, w, bias, logits.
template <typename T>
struct RouterLinearRow {
  using S = Compute<T>;
  static GemmShape shape(const Call& c) {
    return {.op = GemmOp::kNN, .m = c[3].shape()[0], .n = c[3].shape()[1], .k = c[0].shape()[1]};
  }
  static Bytes prepare(const Call& c, GemmCache& gemm) { return prepare_gemm<T>(gemm, shape(c)); }
  static void run(const Call& c, GemmCache& gemm) {
    const GemmShape s = shape(c);
    S* logits = c[3].as<S>();
    const T* bias = c[2].as<T>();
    gemm.run<T, S>(s, {c[0].as<T>(), c[1].as<T>(), logits}, scratch(c.operands.back()));
    for (std::int64_t t = 0; t < s.m; ++t)
      for (std::int64_t e = 0; e < s.n; ++e) logits[t * s.n + e] += static_cast<S>(bias[e]);
  }
};

// Of a bias or its gradient [e, m].
inline ExpertBiases expert_biases(const Call& c, const Operand& bias) {
  return {.columns = bias.shape()[1], .first = c.attributes[1]};
}

// x, w, counts, bias, y.
template <typename T>
struct GroupedLinearRow {
  static GroupedShape shape(const Call& c) { return grouped_shape(c[0], c[4], c[2]); }
  static Bytes prepare(const Call& c, GemmCache&) { return grouped_scratch_bytes<T>(shape(c)); }
  static void run(const Call& c, GemmCache&) {
    const auto* counts = c[2].as<std::int32_t>();
    grouped_forward(shape(c), c[4].as<T>(), c[0].as<T>(), c[1].as<T>(), counts, false,
                    scratch(c.operands.back()));
    add_expert_biases(shape(c), expert_biases(c, c[3]), c[4].as<T>(), c[3].as<T>(), counts);
  }
};

// x, dy, counts, dw, dbias.
template <typename T>
struct GroupedLinearWeightRow : GroupedWeightRow<T> {
  using Products = GroupedWeightRow<T>;
  static void run(const Call& c, GemmCache& gemm) {
    Products::run(c, gemm);
    with_gradient<T>(c[4], [&]<typename G>(G* dbias) {
      expert_bias_gradient(Products::shape(c), expert_biases(c, c[4]), dbias, c[1].as<T>(),
                           c[2].as<std::int32_t>(), c[4].adds());
    });
  }
};

template <typename T>
constexpr auto expert_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      prepared<DispatchEntry, ProductRow<T, GemmOp::kNN>>(K::kRouterForward),
      row(K::kChooseExperts, read_choose_experts<T>, [](auto... x) { choose_experts<T>(x...); }),
      row(K::kPlaceRows, read_place_rows, [](const RowPlacing& x) { place_rows(x); }),
      row(K::kSelectRows, read_select_rows, [](const RowSelection& x) { select_rows(x); }),
      row(K::kCountChoices, read_count_choices, [](const ChoiceCounts& x) { count_choices(x); }),
      row(K::kBalanceBias, read_balance_bias<T>, [](const auto& x) { balance_bias(x); }),
      row(K::kDispatchRows, read_dispatch_rows<T>, [](auto... x) { dispatch_rows<T>(x...); }),
      prepared<DispatchEntry, GroupedForwardRow<T>>(K::kGroupedForward),
      prepared<DispatchEntry, RouterLinearRow<T>>(K::kRouterLinearForward),
      prepared<DispatchEntry, GroupedLinearRow<T>>(K::kGroupedLinearForward),
      prepared<DispatchEntry, GroupedLinearWeightRow<T>>(K::kGroupedLinearWeightGradient),
      prepared<DispatchEntry, GroupedInputRow<T>>(K::kGroupedInputGradient),
      prepared<DispatchEntry, GroupedWeightRow<T>>(K::kGroupedWeightGradient),
      row(K::kCombineRows, read_combine_rows<T>, [](auto... x) { combine_rows<T>(x...); }),
      row(K::kCombineRowsBackward, read_combine_rows_backward<T>,
          [](auto... x) { combine_rows_backward<T>(x...); }),
      row(K::kChooseExpertsBackward, read_choose_experts_backward<T>,
          [](auto... x) { choose_experts_backward<T>(x...); }),
      row(K::kGateRows, read_gate_rows<T>, [](const auto& x) { gate_rows(x); }),
      row(K::kGateRowsBackward, read_gate_rows_backward<T>,
          [](const auto& x) { gate_rows_backward(x); }),
      row(K::kBalanceExperts, read_balance_experts<T>, [](auto... x) { balance_experts<T>(x...); }),
  });
}

}  // namespace zplan::exec::cpu
