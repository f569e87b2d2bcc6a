#include "exec/cpu/kernels/linear.h"

#include <algorithm>

#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

GemmShape product(GemmOp op, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmShape shape;
  shape.op = op;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  return shape;
}

}  // namespace

GemmShape linear_forward_gemm(const LinearShape& s, bool bias, bool accumulate) {
  GemmShape shape = product(GemmOp::kNN, s.tokens, s.out, s.in);
  shape.bias = bias;
  shape.accumulate = accumulate;
  return shape;
}

GemmShape linear_dgrad_gemm(const LinearShape& s, bool accumulate) {
  GemmShape shape = product(GemmOp::kNT, s.tokens, s.in, s.out);
  shape.accumulate = accumulate;
  return shape;
}

GemmShape linear_wgrad_gemm(const LinearShape& s, bool accumulate) {
  GemmShape shape = product(GemmOp::kTN, s.in, s.out, s.tokens);
  shape.accumulate = accumulate;
  return shape;
}

GemmShape head_forward_gemm(const HeadShape& s) {
  GemmShape shape = product(GemmOp::kNT, s.tokens, s.vocab, s.hidden);
  shape.ldc = s.padded_vocab;
  return shape;
}

GemmShape head_dgrad_gemm(const HeadShape& s) {
  GemmShape shape = product(GemmOp::kNN, s.tokens, s.hidden, s.vocab);
  shape.lda = s.padded_vocab;
  return shape;
}

GemmShape head_wgrad_gemm(const HeadShape& s, bool accumulate) {
  GemmShape shape = product(GemmOp::kTN, s.vocab, s.hidden, s.tokens);
  shape.lda = s.padded_vocab;
  shape.accumulate = accumulate;
  return shape;
}

template <typename T>
void linear_forward(GemmCache& cache, const LinearShape& shape, const LinearForward<T>& x,
                    Scratch scratch) {
  cache.run<T>(linear_forward_gemm(shape, x.bias != nullptr, x.accumulate), {x.x, x.w, x.y, x.bias},
               scratch);
}

template <typename T>
void linear_dgrad(GemmCache& cache, const LinearShape& shape, const LinearDgrad<T>& x,
                  Scratch scratch) {
  cache.run<T>(linear_dgrad_gemm(shape, x.accumulate), {x.dy, x.w, x.dx}, scratch);
}

template <typename T, typename G>
void linear_wgrad(GemmCache& cache, const LinearShape& shape, const LinearWgrad<T, G>& x,
                  Scratch scratch) {
  cache.run<T, G>(linear_wgrad_gemm(shape, x.accumulate), {x.x, x.dy, x.dw}, scratch);
  if (x.dbias != nullptr) column_sums(x.dbias, x.dy, shape.tokens, shape.out, x.accumulate);
}

template <typename T>
void head_forward(GemmCache& cache, const HeadShape& shape, const HeadForward<T>& x,
                  Scratch scratch) {
  cache.run<T>(head_forward_gemm(shape), {x.x, x.wte, x.logits}, scratch);
  const std::int64_t padding = shape.padded_vocab - shape.vocab;
  for (std::int64_t t = 0; t < shape.tokens && padding > 0; ++t) {
    std::fill_n(x.logits + t * shape.padded_vocab + shape.vocab, padding, static_cast<T>(0));
  }
}

template <typename T>
void head_dgrad(GemmCache& cache, const HeadShape& shape, const HeadDgrad<T>& x, Scratch scratch) {
  cache.run<T>(head_dgrad_gemm(shape), {x.dlogits, x.wte, x.dx}, scratch);
}

template <typename T, typename G>
void head_wgrad(GemmCache& cache, const HeadShape& shape, const HeadWgrad<T, G>& x,
                Scratch scratch) {
  cache.run<T, G>(head_wgrad_gemm(shape, x.accumulate), {x.dlogits, x.x, x.dwte}, scratch);
}

#define ZPLAN_INSTANTIATE(T)                                                                     \
  template void linear_forward<T>(GemmCache&, const LinearShape&, const LinearForward<T>&,       \
                                  Scratch);                                                      \
  template void linear_dgrad<T>(GemmCache&, const LinearShape&, const LinearDgrad<T>&, Scratch); \
  template void head_forward<T>(GemmCache&, const HeadShape&, const HeadForward<T>&, Scratch);   \
  template void head_dgrad<T>(GemmCache&, const HeadShape&, const HeadDgrad<T>&, Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                              \
  template void linear_wgrad<T, G>(GemmCache&, const LinearShape&, const LinearWgrad<T, G>&, \
                                   Scratch);                                                 \
  template void head_wgrad<T, G>(GemmCache&, const HeadShape&, const HeadWgrad<T, G>&, Scratch);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
