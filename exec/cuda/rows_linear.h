// Rows of the dispatch table: matrix products of linear layers and the head. Internal to exec/cuda.
#pragma once

#include <algorithm>
#include <array>

#include "exec/cuda/call_support.h"
#include "exec/cuda/dispatch.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/kernels/column_sums.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/kernels/read_products.h"

namespace zplan::exec::cuda {

template <typename T, GemmOp op, GemmEpilogue epilogue = GemmEpilogue::kNone>
struct ProductRow : ProductCall<op, epilogue> {
  using Operands = ProductCall<op, epilogue>;
  static constexpr std::size_t kResult = Operands::kResult, kVector = Operands::kVector,
                               kAux = Operands::kAux;
  static constexpr bool kSums = epilogue == GemmEpilogue::kColumnSums;

  // Column sums can be written by the product, but not added.
  static GemmShape shape(const KernelCall& c) {
    const auto [m, n, k] = Operands::size(c);
    const bool adds = kSums && (c[kResult].adds() || c[kVector].adds());
    return {.op = op,
            .m = m,
            .n = n,
            .k = k,
            .type = c[0].view->dtype,
            .result = c[kResult].view->dtype,
            .accumulate = c[kResult].adds(),
            .epilogue = adds ? GemmEpilogue::kNone : epilogue};
  }

  static GemmRoom room(const KernelCall& c, const Program& program) {
    const auto alignment = [&](std::size_t i) { return alignment_of(program, *c[i].view); };
    return {.a = alignment(0),
            .b = alignment(1),
            .c = std::min(alignment(kResult), alignment(kAux ? kAux : kResult)),
            .vector = kVector ? alignment(kVector) : 0,
            .scratch = c.operands.back().view->bytes()};
  }

  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    const Bytes product = p.gemm.prepare(name(c.node->role), shape(c), room(c, p.program), rest(c));
    return kSums ? std::max(product, column_sums_scratch_bytes(c[1].shape()[1])) : product;
  }

  static void run(const KernelCall& c, LaneContext& lane) {
    lane.gemm->run(lane.stream, shape(c),
                   {.a = c[0].data,
                    .b = c[1].data,
                    .c = c[kResult].data,
                    .vector = kVector ? c[kVector].data : nullptr,
                    .aux = kAux ? c[kAux].data : nullptr,
                    .scratch = c.operands.back().data});
    if constexpr (kSums || kAux != 0)
      if (lane.gemm->epilogue(shape(c)) != epilogue) run_epilogue(c, lane.stream);
  }

  // The same on operands that lie elsewhere.
  static GemmRest rest(const KernelCall& c) {
    if constexpr (!kSums && kAux == 0) return nullptr;
    return [&c](cudaStream_t stream, const GemmOperands& x) {
      std::array<Operand, kMostOperands> operands;
      std::copy(c.operands.begin(), c.operands.end(), operands.begin());
      const auto lies = [&](std::size_t i, const void* at) {
        operands[i].data = static_cast<std::byte*>(const_cast<void*>(at));
      };
      lies(1, x.b);
      lies(kResult, x.c);
      if (kVector != 0) lies(kVector, x.vector);
      if (kAux != 0) lies(kAux, x.aux);
      lies(c.operands.size() - 1, x.scratch);
      KernelCall call = c;
      call.operands = std::span(operands).first(c.operands.size());
      run_epilogue(call, stream);
    };
  }

  // Where the library leaves it out.
  static void run_epilogue(const KernelCall& c, cudaStream_t stream) {
    T* result = c[kResult].as<T>();
    const std::int64_t n = c[kResult].elements();
    if constexpr (epilogue == GemmEpilogue::kBiasGelu)
      gelu_forward<T>(stream, result, c[kAux].as<T>(), n);
    if constexpr (epilogue == GemmEpilogue::kGeluGradient)
      gelu_backward<T>(stream, result, result, c[kAux].as<T>(), n);
    if constexpr (kSums)
      with_gradient<T>(c[kVector], [&]<typename G>(G* sums) {
        column_sums<T, G>(stream, sums, c[1].as<T>(), c[1].shape()[0], c[1].shape()[1],
                          c[kVector].adds(), device_scratch(c.operands.back()));
      });
  }
};

template <typename T>
struct Products {
  template <GemmOp op, GemmEpilogue epilogue>
  using Row = ProductRow<T, op, epilogue>;
};

}  // namespace zplan::exec::cuda
