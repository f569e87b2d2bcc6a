// Rows of the dispatch table: matrix products of linear layers and the head. A and B are the first
// two operands of every product, the scratch is the last. Buffers hold all Vp rows of wte, the
// padded ones zero, so a product needs no special case there. Internal to exec/cuda.
#pragma once

#include <algorithm>

#include "exec/cuda/call_support.h"
#include "exec/cuda/dispatch.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/kernels/column_sums.h"

namespace zplan::exec::cuda {

template <GemmOp op, GemmEpilogue epilogue = GemmEpilogue::kNone>
struct ProductRow {
  static constexpr std::size_t kResult = epilogue == GemmEpilogue::kBias ? 3 : 2;
  static constexpr std::size_t kVector = epilogue == GemmEpilogue::kBias ? 2 : 3;
  static constexpr bool kHasVector = epilogue != GemmEpilogue::kNone;

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
                        .c = alignment(kResult),
                        .vector = kHasVector ? alignment(kVector) : 0,
                        .scratch = c.operands.back().view->bytes()};
    return p.gemm.prepare(name(c.node->role), shape(c), room);
  }

  static void run(const KernelCall& c, LaneContext& lane) {
    lane.gemm->run(lane.stream, shape(c),
                   {.a = c[0].data,
                    .b = c[1].data,
                    .c = c[kResult].data,
                    .vector = kHasVector ? c[kVector].data : nullptr,
                    .scratch = c.operands.back().data});
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
    if (lane.gemm->fuses_column_sums(Product::shape(c))) return;
    with_gradient<T>(c[3], [&]<typename G>(G* dbias) {
      column_sums<T, G>(lane.stream, dbias, c[1].as<T>(), c[1].shape()[0], c[1].shape()[1],
                        c[3].adds(), device_scratch(c[4]));
    });
  }
};

}  // namespace zplan::exec::cuda
