// Rows of the dispatch table: linear layers and the head. Internal to exec/cpu.
#pragma once

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/linear.h"

namespace zplan::exec::cpu {

inline LinearShape linear_shape(const Operand& rows, const Operand& weight) {
  return {rows.shape()[0], weight.shape()[0], weight.shape()[1]};
}

// Buffers hold all Vp rows of wte, the padded ones zero, so a product needs no special case there.
inline HeadShape head_shape(const Operand& rows, const Operand& wte) {
  const std::int64_t padded_vocab = wte.shape()[0];
  return {rows.shape()[0], wte.shape()[1], padded_vocab, padded_vocab};
}

template <typename T>
struct LinearForwardRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_forward_gemm(linear_shape(c[0], c[1]), true, false));
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_forward<T>(
        gemm, linear_shape(c[0], c[1]),
        {.y = c[3].as<T>(), .x = c[0].as<T>(), .w = c[1].as<T>(), .bias = c[2].as<T>()},
        scratch(c[4]));
  }
};

// The same, then y = gelu of it.
template <typename T>
struct LinearGeluForwardRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return LinearForwardRow<T>::prepare(c, gemm);
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_forward<T>(
        gemm, linear_shape(c[0], c[1]),
        {.y = c[3].as<T>(), .x = c[0].as<T>(), .w = c[1].as<T>(), .bias = c[2].as<T>()},
        scratch(c[5]));
    gelu_forward<T>(c[4].as<T>(), c[3].as<T>(), c[3].elements());
  }
};

template <typename T>
struct MatmulForwardRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_forward_gemm(linear_shape(c[0], c[1]), false, c[2].adds()));
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_forward<T>(gemm, linear_shape(c[0], c[1]),
                      {.y = c[2].as<T>(),
                       .x = c[0].as<T>(),
                       .w = c[1].as<T>(),
                       .bias = nullptr,
                       .accumulate = c[2].adds()},
                      scratch(c[3]));
  }
};

template <typename T>
struct LinearInputGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_dgrad_gemm(linear_shape(c[0], c[1]), c[2].adds()));
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_dgrad<T>(
        gemm, linear_shape(c[0], c[1]),
        {.dx = c[2].as<T>(), .dy = c[0].as<T>(), .w = c[1].as<T>(), .accumulate = c[2].adds()},
        scratch(c[3]));
  }
};

template <typename T>
struct GeluInputGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_dgrad_gemm(linear_shape(c[0], c[1]), false));
  }
  static void run(const Call& c, GemmCache& gemm) {
    linear_dgrad<T>(
        gemm, linear_shape(c[0], c[1]),
        {.dx = c[3].as<T>(), .dy = c[0].as<T>(), .w = c[1].as<T>(), .accumulate = false},
        scratch(c[4]));
    gelu_backward<T>(c[3].as<T>(), c[3].as<T>(), c[2].as<T>(), c[3].elements());
  }
};

// Of linear layers with and without the gradient of a bias.
template <typename T>
struct WeightGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, linear_wgrad_gemm(linear_shape(c[0], c[2]), c[2].adds()));
  }
  static void run(const Call& c, GemmCache& gemm) {
    const bool has_bias = c.node->kernel == KernelId::kLinearWeightGradient;
    with_gradient<T>(c[2], [&]<typename G>(G* dw) {
      linear_wgrad<T, G>(gemm, linear_shape(c[0], c[2]),
                         {.dw = dw,
                          .dbias = has_bias ? c[3].as<G>() : nullptr,
                          .dy = c[1].as<T>(),
                          .x = c[0].as<T>(),
                          .accumulate = c[2].adds()},
                         scratch(c.operands.back()));
    });
  }
};

template <typename T>
struct HeadForwardRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, head_forward_gemm(head_shape(c[0], c[1])));
  }
  static void run(const Call& c, GemmCache& gemm) {
    head_forward<T>(gemm, head_shape(c[0], c[1]),
                    {.logits = c[2].as<T>(), .x = c[0].as<T>(), .wte = c[1].as<T>()},
                    scratch(c[3]));
  }
};

template <typename T>
struct HeadInputGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, head_dgrad_gemm(head_shape(c[0], c[1])));
  }
  static void run(const Call& c, GemmCache& gemm) {
    head_dgrad<T>(gemm, head_shape(c[0], c[1]),
                  {.dx = c[2].as<T>(), .dlogits = c[0].as<T>(), .wte = c[1].as<T>()},
                  scratch(c[3]));
  }
};

template <typename T>
struct HeadWeightGradientRow {
  static Bytes prepare(const Call& c, GemmCache& gemm) {
    return prepare_gemm<T>(gemm, head_wgrad_gemm(head_shape(c[0], c[2]), c[2].adds()));
  }
  static void run(const Call& c, GemmCache& gemm) {
    with_gradient<T>(c[2], [&]<typename G>(G* dwte) {
      head_wgrad<T, G>(
          gemm, head_shape(c[0], c[2]),
          {.dwte = dwte, .dlogits = c[0].as<T>(), .x = c[1].as<T>(), .accumulate = c[2].adds()},
          scratch(c[3]));
    });
  }
};

template <typename T>
void run_bias_gradient(const Call& c, GemmCache&) {
  with_gradient<T>(c[1], [&](auto* dbias) {
    column_sums(dbias, c[0].as<T>(), c[0].shape()[0], c[0].shape()[1], c[1].adds());
  });
}

}  // namespace zplan::exec::cpu
