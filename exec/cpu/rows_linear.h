// Rows of the dispatch table: matrix products of linear layers and the head. Internal to exec/cpu.
#pragma once

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/kernels/read_products.h"

namespace zplan::exec::cpu {

// The bias is part of the product; what else an epilogue is follows it.
template <typename T, GemmOp op, GemmEpilogue epilogue = GemmEpilogue::kNone>
struct ProductRow : ProductCall<op, epilogue> {
  using Operands = ProductCall<op, epilogue>;
  static constexpr std::size_t kResult = Operands::kResult, kVector = Operands::kVector,
                               kAux = Operands::kAux;
  static constexpr bool kHasBias =
      epilogue == GemmEpilogue::kBias || epilogue == GemmEpilogue::kBiasGelu;
  static constexpr std::size_t kProduct = epilogue == GemmEpilogue::kBiasGelu ? kAux : kResult;

  static GemmShape shape(const Call& c) {
    const auto [m, n, k] = Operands::size(c);
    return {.op = op, .m = m, .n = n, .k = k, .accumulate = c[kProduct].adds(), .bias = kHasBias};
  }

  static Bytes prepare(const Call& c, GemmCache& gemm) { return prepare_gemm<T>(gemm, shape(c)); }

  static void run(const Call& c, GemmCache& gemm) {
    with_gradient<T>(c[kProduct], [&]<typename G>(G* product) {
      const T* bias = kHasBias ? c[kVector].as<T>() : nullptr;
      gemm.run<T, G>(shape(c), {c[0].as<T>(), c[1].as<T>(), product, bias},
                     scratch(c.operands.back()));
      if constexpr (epilogue == GemmEpilogue::kColumnSums)
        column_sums(c[kVector].as<G>(), c[1].as<T>(), c[1].shape()[0], c[1].shape()[1],
                    c[kVector].adds());
    });
    T* result = c[kResult].as<T>();
    if constexpr (epilogue == GemmEpilogue::kBiasGelu)
      gelu_forward(result, c[kAux].as<T>(), c[kResult].elements());
    if constexpr (epilogue == GemmEpilogue::kGeluGradient)
      gelu_backward(result, result, c[kAux].as<T>(), c[kResult].elements());
  }
};

template <typename T>
struct Products {
  template <GemmOp op, GemmEpilogue epilogue>
  using Row = ProductRow<T, op, epilogue>;
};

}  // namespace zplan::exec::cpu
