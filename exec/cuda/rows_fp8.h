// Rows of the dispatch table of sets that multiply in fp8: products of layers whose operands are
// cast on the way (planner/program/kernels/fp8_products.h). The library takes operands with k
// innermost alone, so what lies otherwise is turned as it is cast. All other products, and those of
// sizes that fp8 does not take, are those of rows_linear.h. Internal to exec/cuda.
#pragma once

#include "exec/cuda/kernels/cast_fp8.h"
#include "exec/cuda/rows_linear.h"
#include "planner/program/kernels/fp8_products.h"

namespace zplan::exec::cuda {

// Gradients, the first operand of input gradients and the second of weight gradients, are e5m2.
constexpr Fp8Format first_format(GemmOp op) {
  return op == GemmOp::kNT ? Fp8Format::kE5m2 : Fp8Format::kE4m3;
}
constexpr Fp8Format second_format(GemmOp op) {
  return op == GemmOp::kTN ? Fp8Format::kE5m2 : Fp8Format::kE4m3;
}

template <typename T, GemmOp op, GemmEpilogue epilogue = GemmEpilogue::kNone>
struct Fp8ProductRow : ProductRow<T, op, epilogue> {
  using Plain = ProductRow<T, op, epilogue>;
  static constexpr std::size_t kResult = Plain::kResult, kVector = Plain::kVector,
                               kAux = Plain::kAux;

  static Product product(const KernelCall& c) {
    const auto [m, n, k] = Plain::size(c);
    return {.m = m, .n = n, .k = k};
  }
  static bool casts(const KernelCall& c) {
    return kernel_def(c.node->kernel).layer_product && fits_fp8(product(c));
  }

  // Sums of columns are ours: they are of what the codes stand for.
  static GemmShape shape(const KernelCall& c) {
    GemmShape shape = Plain::shape(c);
    shape.op = GemmOp::kNT;
    shape.a_fp8 = first_format(op);
    shape.b_fp8 = second_format(op);
    if (Plain::kSums) shape.epilogue = GemmEpilogue::kNone;
    return shape;
  }

  static Bytes prepare(const KernelCall& c, const Preparation& p) {
    if (!casts(c)) return Plain::prepare(c, p);
    GemmRoom room = Plain::room(c, p.program);
    const Bytes rest = fp8_scratch(product(c)).rest;
    room.a = room.b = static_cast<std::uint32_t>(kBufferAlignment.value);
    room.scratch = std::max(Bytes{0}, room.scratch - rest);
    const GemmRest after = Plain::kSums ? nullptr : Plain::rest(c);
    return rest + p.gemm.prepare(name(c.node->role), shape(c), room, after);
  }

  static void run(const KernelCall& c, LaneContext& lane) {
    if (!casts(c)) return Plain::run(c, lane);
    const Fp8Scratch at = fp8_scratch(product(c));
    std::byte* const scratch = c.operands.back().data;
    const auto scale = [&](Bytes place) { return reinterpret_cast<float*>(scratch + place.value); };
    cast(lane.stream, c[0], scratch + at.a.value, scale(at.a_scale), first_format(op),
         op == GemmOp::kTN);
    cast(lane.stream, c[1], scratch + at.b.value, scale(at.b_scale), second_format(op),
         op != GemmOp::kNT);
    lane.gemm->run(lane.stream, shape(c),
                   {.a = scratch + at.a.value,
                    .b = scratch + at.b.value,
                    .c = c[kResult].data,
                    .vector = kVector ? c[kVector].data : nullptr,
                    .aux = kAux ? c[kAux].data : nullptr,
                    .scratch = scratch + at.rest.value,
                    .a_scale = scale(at.a_scale),
                    .b_scale = scale(at.b_scale)});
    if constexpr (Plain::kSums)
      with_gradient<T>(c[kVector], [&]<typename G>(G* sums) {
        const auto [m, n, k] = Plain::size(c);
        row_sums_fp8(lane.stream, sums, codes(scratch + at.b.value), scale(at.b_scale), n, k,
                     second_format(op), c[kVector].adds());
      });
    if constexpr (kAux != 0)
      if (lane.gemm->epilogue(shape(c)) != epilogue) Plain::run_epilogue(c, lane.stream);
  }

 private:
  static std::uint8_t* codes(std::byte* at) { return reinterpret_cast<std::uint8_t*>(at); }

  static void cast(cudaStream_t stream, const Operand& x, std::byte* to, float* scale,
                   Fp8Format format, bool transposes) {
    cast_fp8<T>(stream, {.codes = codes(to),
                         .scale = scale,
                         .parts = scale + 1,
                         .x = x.as<T>(),
                         .rows = x.shape()[0],
                         .columns = x.shape()[1],
                         .format = format,
                         .transposes = transposes});
  }
};

template <typename T>
struct Fp8Products {
  template <GemmOp op, GemmEpilogue epilogue>
  using Row = Fp8ProductRow<T, op, epilogue>;
};

}  // namespace zplan::exec::cuda
