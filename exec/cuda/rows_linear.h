// Rows of the dispatch table: matrix products of linear layers and the head. A and B are the first
// two operands of every product, the scratch is the last. Buffers hold all Vp rows of wte, the
// padded ones zero, so a product needs no special case there. Internal to exec/cuda.
#pragma once

#include <algorithm>

#include "exec/cuda/call_support.h"
#include "exec/cuda/dispatch.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/kernels/column_sums.h"
#include "exec/cuda/kernels/elementwise.h"

namespace zplan::exec::cuda {

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

template <GemmOp op, GemmEpilogue epilogue = GemmEpilogue::kNone>
struct ProductRow {
  static constexpr std::size_t kResult = operands_of(epilogue).result;
  static constexpr std::size_t kVector = operands_of(epilogue).vector;
  static constexpr std::size_t kAux = operands_of(epilogue).aux;

  // Column sums can be written by the product, but not added.
  static GemmShape shape(const KernelCall& c) {
    const Shape &a = c[0].shape(), &b = c[1].shape();
    const bool sums = epilogue == GemmEpilogue::kColumnSums;
    const bool adds = sums && (c[kResult].adds() || c[kVector].adds());
    return {.op = op,
            .m = op == GemmOp::kTN ? a[1] : a[0],
            .n = op == GemmOp::kNT ? b[0] : b[1],
            .k = op == GemmOp::kTN ? a[0] : a[1],
            .type = c[0].view->dtype,
            .result = c[kResult].view->dtype,
            .accumulate = c[kResult].adds(),
            .epilogue = adds ? GemmEpilogue::kNone : epilogue};
  }

  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    const auto alignment = [&](std::size_t i) { return alignment_of(p.program, *c[i].view); };
    const GemmRoom room{.a = alignment(0),
                        .b = alignment(1),
                        .c = std::min(alignment(kResult), alignment(kAux ? kAux : kResult)),
                        .vector = kVector ? alignment(kVector) : 0,
                        .scratch = c.operands.back().view->bytes()};
    return p.gemm.prepare(name(c.node->role), shape(c), room);
  }

  static void run(const KernelCall& c, LaneContext& lane) {
    lane.gemm->run(lane.stream, shape(c),
                   {.a = c[0].data,
                    .b = c[1].data,
                    .c = c[kResult].data,
                    .vector = kVector ? c[kVector].data : nullptr,
                    .aux = kAux ? c[kAux].data : nullptr,
                    .scratch = c.operands.back().data});
  }
};

// sum[T,n] = x[T,k] w[k,n] + bias[n], y = gelu(sum)
template <typename T>
struct LinearGeluForwardRow {
  using Product = ProductRow<GemmOp::kNN, GemmEpilogue::kBiasGelu>;

  static Bytes prepare(const KernelCall& c, const Preparation& p) { return Product::prepare(c, p); }

  static void run(const KernelCall& c, LaneContext& lane) {
    Product::run(c, lane);
    if (lane.gemm->epilogue(Product::shape(c)) == GemmEpilogue::kBiasGelu) return;
    gelu_forward<T>(lane.stream, c[4].as<T>(), c[3].as<T>(), c[3].elements());
  }
};

// dx[T,k] = dy[T,n] w[k,n]^T gelu'(x)
template <typename T>
struct GeluInputGradientRow {
  using Product = ProductRow<GemmOp::kNT, GemmEpilogue::kGeluGradient>;

  static Bytes prepare(const KernelCall& c, const Preparation& p) { return Product::prepare(c, p); }

  static void run(const KernelCall& c, LaneContext& lane) {
    Product::run(c, lane);
    if (lane.gemm->epilogue(Product::shape(c)) == GemmEpilogue::kGeluGradient) return;
    gelu_backward<T>(lane.stream, c[3].as<T>(), c[3].as<T>(), c[2].as<T>(), c[3].elements());
  }
};

// Of a linear layer with a bias: dw[k,n] = x[T,k]^T dy[T,n], dbias[n] = column sums of dy.
template <typename T>
struct LinearWeightGradientRow {
  using Product = ProductRow<GemmOp::kTN, GemmEpilogue::kColumnSums>;

  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    return std::max(Product::prepare(c, p), column_sums_scratch_bytes(c[1].shape()[1]));
  }

  static void run(const KernelCall& c, LaneContext& lane) {
    Product::run(c, lane);
    if (lane.gemm->epilogue(Product::shape(c)) == GemmEpilogue::kColumnSums) return;
    with_gradient<T>(c[3], [&]<typename G>(G* dbias) {
      column_sums<T, G>(lane.stream, dbias, c[1].as<T>(), c[1].shape()[0], c[1].shape()[1],
                        c[3].adds(), device_scratch(c[4]));
    });
  }
};

}  // namespace zplan::exec::cuda
