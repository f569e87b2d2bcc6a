// How matrix products read their calls, on every device. A and B are the first two operands of
// every product, the scratch is the last. Buffers hold all Vp rows of wte, the padded ones zero, so
// a product needs no special case there.
#pragma once

#include <array>
#include <cstddef>

#include "exec/backend.h"
#include "exec/kernels/arguments.h"
#include "exec/kernels/dispatch_table.h"

namespace zplan::exec {

// Where the operands of a product with an epilogue stand; 0: it has none.
struct ProductOperands {
  std::size_t result, vector, aux;
};
constexpr ProductOperands operands_of(GemmEpilogue epilogue) {
  switch (epilogue) {
    case GemmEpilogue::kBias:
      return {.result = 3, .vector = 2, .aux = 0};
    case GemmEpilogue::kColumnSums:
      return {.result = 2, .vector = 3, .aux = 0};
    case GemmEpilogue::kBiasGelu:
      return {.result = 4, .vector = 2, .aux = 3};
    case GemmEpilogue::kGeluGradient:
      return {.result = 3, .vector = 0, .aux = 2};
    case GemmEpilogue::kNone:
      break;
  }
  return {.result = 2, .vector = 0, .aux = 0};
}

struct ProductSize {
  std::int64_t m, n, k;
};

template <GemmOp op, GemmEpilogue epilogue>
struct ProductCall {
  static constexpr std::size_t kResult = operands_of(epilogue).result;
  static constexpr std::size_t kVector = operands_of(epilogue).vector;
  static constexpr std::size_t kAux = operands_of(epilogue).aux;

  static ProductSize size(const KernelCall& c) {
    const Shape &a = c[0].shape(), &b = c[1].shape();
    return {.m = op == GemmOp::kTN ? a[1] : a[0],
            .n = op == GemmOp::kNT ? b[0] : b[1],
            .k = op == GemmOp::kTN ? a[0] : a[1]};
  }
};

// Which product each kernel is. The device runs it as Products::Row<op, epilogue>.
template <typename Entry, typename Products, GemmOp op, GemmEpilogue epilogue = GemmEpilogue::kNone>
constexpr Entry product_row(KernelId kernel) {
  return prepared<Entry, typename Products::template Row<op, epilogue>>(kernel);
}

template <typename Entry, typename Products>
constexpr auto product_rows() {
  using K = KernelId;
  using enum GemmOp;
  using enum GemmEpilogue;
  using E = Entry;
  using P = Products;
  return std::to_array<Entry>({
      product_row<E, P, kNN, kBias>(K::kLinearForward),
      product_row<E, P, kNN, kBiasGelu>(K::kLinearGeluForward),
      product_row<E, P, kNN>(K::kMatmulForward),
      product_row<E, P, kNT>(K::kHeadForward),
      product_row<E, P, kNT>(K::kLinearInputGradient),
      product_row<E, P, kNT, kGeluGradient>(K::kGeluInputGradient),
      product_row<E, P, kNN>(K::kHeadInputGradient),
      product_row<E, P, kTN, kColumnSums>(K::kLinearWeightGradient),
      product_row<E, P, kTN>(K::kMatmulWeightGradient),
      product_row<E, P, kTN>(K::kHeadWeightGradient),
  });
}

}  // namespace zplan::exec
