#include "planner/program/kernel_table.h"

#include <algorithm>
#include <array>

#include "planner/core/error.h"

namespace zplan {
namespace {

using Operands = std::span<const View>;

Bytes traffic(Operands operands) {
  Bytes sum{0};
  for (const View& v : operands) {
    if (v.access == Access::kScratch) continue;
    sum += v.access == Access::kUpdate ? v.bytes() * 2 : v.bytes();
  }
  return sum;
}

template <WorkKind kind, int flop_per_element, int operand>
Demand streaming(Operands o) {
  const std::int64_t n = o[static_cast<std::size_t>(operand)].shape.elements();
  return {.kind = kind, .flops = Flops{n * flop_per_element}, .bytes = traffic(o)};
}

Demand product(const Product& p, Operands o) {
  return {.kind = WorkKind::kGemm,
          .flops = Flops{2 * p.m * p.n * p.k * p.batch * p.times},
          .bytes = traffic(o),
          .product = p};
}

// y[m,n] = x[m,k] w[k,n] with x and w at the given operands.
template <int x, int w>
Demand matmul(Operands o) {
  const Shape& a = o[x].shape;
  const std::int64_t k = a[a.rank - 1];
  return product({.m = a.elements() / k, .n = o[w].shape.elements() / k, .k = k}, o);
}

// dx[T,k] = dy[T,n] w[k,n]^T; the weights also lie the other way round.
template <int dy, int w>
Demand input_gradient(Operands o) {
  const Shape& d = o[dy].shape;
  const std::int64_t n = d[d.rank - 1];
  return product({.m = d.elements() / n, .n = o[w].shape.elements() / n, .k = n}, o);
}

// dw[k,n] = x[T,k]^T dy[T,n]
template <int x, int dw>
Demand weight_gradient(Operands o) {
  const Shape& d = o[dw].shape;
  return product({.m = d[0], .n = d[1], .k = o[x].shape[0]}, o);
}

// [Dao22 sec 3] two products of b a (s^2/2) d, causal; the forward is recomputed in backward: five.
template <int out, int products>
Demand attention(Operands o) {
  const Shape& x = o[out].shape;  // [b, s, a, d]
  const std::int64_t causal_pairs = x[1] * (x[1] + 1) / 2;
  return {.kind = WorkKind::kAttention,
          .flops = Flops{2 * products * x[0] * x[2] * x[3] * causal_pairs},
          .bytes = traffic(o),
          .attention = {x[0], x[2], x[1], x[3], products > 2}};
}

// Products over the whole square, masked or not: [b,a,s,s] at `scores`, d of qkv [b,s,n,d].
template <int scores, int qkv, int products>
Demand square(Operands o) {
  const Shape& x = o[scores].shape;
  const std::int64_t d = o[qkv].shape[3];
  return product({.m = x[2], .n = x[3], .k = d, .batch = x[0] * x[1], .times = products}, o);
}

// Reads only the rows of wte it looks up.
Demand embedding_forward(Operands o) {
  const Bytes x = o[2].bytes();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{o[2].shape.elements()},
          .bytes = o[0].bytes() + x * 2 + traffic(o.subspan(3))};
}

// Adding touches only the rows of the batch's tokens, at most one per token: they are read and
// written. Overwriting writes the whole table once. [derived]
Demand embedding_backward(Operands o) {
  const Shape& dx = o[1].shape;
  const View& table = o[2];
  const std::int64_t touched = std::min(dx.elements(), table.shape.elements());
  const Bytes moved =
      table.access == Access::kUpdate ? size_of(table.dtype) * (2 * touched) : table.bytes();
  return {.kind = WorkKind::kMemory,
          .flops = Flops{2 * dx.elements()},
          .bytes = traffic(o.first(2)) + moved + traffic(o.subspan(3))};
}

Demand host_work(Operands o) { return {.kind = WorkKind::kHost, .bytes = traffic(o)}; }

constexpr auto kMem = WorkKind::kMemory;
constexpr auto kGemm = WorkKind::kGemm;
constexpr auto kAtt = WorkKind::kAttention;
constexpr auto kHost = WorkKind::kHost;

// Flop per element of an elementwise kernel, counted from its formula (those stand at the kernels
// of exec/cpu/kernels): an addition, product, quotient, root or comparison is 1. They only matter
// on the CPU lane; a GPU streams (cost/kernel_time.h). [derived]
// exp: 6 to reduce the range and 7 multiply-adds of a polynomial good to float. [derived]
constexpr int kExp = 20;
// A random number: ten rounds of 8 operations give four [Salmon11].
constexpr int kDraw = 20;

const std::array<KernelDef, kKernelCount> kTable{{
    {KernelId::kLoadBatch, kHost, "w", 1, host_work, "tokens[b,s+1]", "i", "[derived]"},
    {KernelId::kStepScalars, kHost, "wru", 1, host_work, "scalars[11] clip[2] loss_scale[3]", "ddd",
     "[Loshchilov19 Algorithm 2]"},
    {KernelId::kEmbeddingForward, kMem, "rrwr", 3, embedding_forward,
     "tokens[b,s+1] wte[Vp,h] x[b,s,h] wpe[s,h]", "iccc", "[Radford19]"},
    {KernelId::kLayerNormForward, kMem, "rrrwww", 6, streaming<kMem, 8, 0>,
     "x[T,h] gain[h] bias[h] y[T,h] mean[T] rstd[T]", "cccctt", "[Ba16]"},
    {KernelId::kLinearForward, kGemm, "rrrws", 5, matmul<0, 1>, "x[T,k] w[k,n] bias[n] y[T,n]",
     "cccc", "[derived]"},
    {KernelId::kAttentionForward, kAtt, "rwws", 4, attention<1, 2>,
     "qkv[b,s,n,d] out[b,s,a,d] lse[b,a,s]", "cct", "[Dao22 sec 3]"},
    {KernelId::kGeluForward, kMem, "rw", 2, streaming<kMem, 9 + kExp, 0>, "x[*] y[*]", "cc",
     "[Hendrycks16]"},
    {KernelId::kResidualAdd, kMem, "rrw", 3, streaming<kMem, 1, 0>, "x[*] y[*] out[*]", "ccc",
     "[derived]"},
    {KernelId::kHeadForward, kGemm, "rrws", 4, matmul<0, 1>, "x[T,h] wte[Vp,h] logits[T,Vp]", "ccc",
     "[derived]"},
    {KernelId::kCrossEntropy, kMem, "urur", 3, streaming<kMem, 4 + kExp, 0>,
     "logits[b*s,Vp] tokens[b,s+1] loss[1] scalars[11]", "cidd", "[Milakov18]"},
    {KernelId::kHeadInputGradient, kGemm, "rrws", 4, input_gradient<0, 1>,
     "dlogits[T,Vp] wte[Vp,h] dx[T,h]", "ccc", "[derived]"},
    {KernelId::kHeadWeightGradient, kGemm, "rras", 4, weight_gradient<0, 2>,
     "dlogits[T,Vp] x[T,h] dwte[Vp,h]", "ccg", "[derived]"},
    {KernelId::kLayerNormBackward, kMem, "rrrrraaas", 9, streaming<kMem, 14, 0>,
     "dy[T,h] x[T,h] mean[T] rstd[T] gain[h] dx[T,h] dgain[h] dbias[h]", "ccttccgg", "[Ba16]"},
    {KernelId::kLinearInputGradient, kGemm, "rras", 4, input_gradient<0, 1>,
     "dy[T,n] w[k,n] dx[T,k]", "ccc", "[derived]"},
    {KernelId::kLinearWeightGradient, kGemm, "rraas", 5, weight_gradient<0, 2>,
     "x[T,k] dy[T,n] dw[k,n] dbias[n]", "ccgg", "[derived]"},
    {KernelId::kAttentionBackward, kAtt, "rrrrws", 6, attention<0, 5>,
     "dout[b,s,a,d] qkv[b,s,n,d] out[b,s,a,d] lse[b,a,s] dqkv[b,s,n,d]", "ccctc", "[Dao22 sec 3]"},
    {KernelId::kGeluBackward, kMem, "ru", 2, streaming<kMem, 18 + kExp, 0>, "x[*] dy[*]", "cc",
     "[Hendrycks16]"},
    {KernelId::kEmbeddingBackward, kMem, "rraa", 3, embedding_backward,
     "tokens[b,s+1] dx[b,s,h] dwte[Vp,h] dwpe[s,h]", "icgg", "[Radford19]"},
    {KernelId::kFillZero, kMem, "w", 1, streaming<kMem, 0, 0>, "x[*]", "g", "[derived]"},
    {KernelId::kAccumulate, kMem, "ru", 2, streaming<kMem, 1, 0>, "x[n] y[n]", "ch", "[derived]"},
    {KernelId::kSumSquares, kMem, "ru", 2, streaming<kMem, 2, 0>, "x[n] sum[1]", "gd", "[PyTorch]"},
    {KernelId::kClipCoefficient, kMem, "rrw", 3, streaming<kMem, 4, 0>,
     "sum[1] scalars[11] clip[2]", "ddd", "[PyTorch]"},
    {KernelId::kAdamW, kMem, "uuurrrw", 6, streaming<kMem, 15, 0>,
     "master[n] m[n] v[n] grad[n] scalars[11] clip[2] param[n]", "ovvgddp",
     "[Loshchilov19 Algorithm 2]"},
    {KernelId::kReport, kHost, "rr", 2, host_work, "loss[1] clip[2]", "dd", "[derived]"},
    {KernelId::kMatmulForward, kGemm, "rras", 4, matmul<0, 1>, "x[T,k] w[k,n] y[T,n]", "ccc",
     "[derived]"},
    {KernelId::kMatmulWeightGradient, kGemm, "rras", 4, weight_gradient<0, 2>,
     "x[T,k] dy[T,n] dw[k,n]", "ccg", "[derived]"},
    {KernelId::kBiasGradient, kMem, "ras", 3, streaming<kMem, 1, 0>, "dy[T,n] dbias[n]", "cg",
     "[derived]"},
    {KernelId::kBiasResidualAdd, kMem, "rrrw", 4, streaming<kMem, 2, 0>,
     "x[T,h] y[T,h] bias[h] out[T,h]", "cccc", "[derived]"},
    {KernelId::kRmsNormForward, kMem, "rrww", 4, streaming<kMem, 4, 0>,
     "x[T,h] gain[h] y[T,h] rstd[T]", "ccct", "[Zhang19]"},
    {KernelId::kRmsNormBackward, kMem, "rrrraas", 7, streaming<kMem, 10, 0>,
     "dy[T,h] x[T,h] rstd[T] gain[h] dx[T,h] dgain[h]", "cctccg", "[Zhang19]"},
    // [derived] sine and cosine of an angle count as one exp; a rotation is 6 per pair
    {KernelId::kRope, kMem, "u", 1, streaming<kMem, 3 + kExp, 0>, "qkv[b,s,n,d]", "c", "[Su21]"},
    {KernelId::kSwigluForward, kMem, "rw", 2, streaming<kMem, 2 + kExp / 2, 0>, "x[T,2*f] y[T,f]",
     "cc", "[Shazeer20]"},
    {KernelId::kSwigluBackward, kMem, "rrw", 3, streaming<kMem, 5 + kExp / 2, 0>,
     "x[T,2*f] dy[T,f] dx[T,2*f]", "ccc", "[Shazeer20]"},
    {KernelId::kAttentionScores, kGemm, "rws", 3, square<1, 0, 1>, "qkv[b,s,n,d] scores[b,a,s,s]",
     "cc", "[Vaswani17 Eq.1]"},
    {KernelId::kSoftmaxForward, kMem, "u", 1, streaming<kMem, 4 + kExp, 0>, "scores[b,a,s,s]", "c",
     "[Vaswani17 Eq.1]"},
    {KernelId::kAttentionContext, kGemm, "rrws", 4, square<0, 1, 1>,
     "probs[b,a,s,s] qkv[b,s,n,d] out[b,s,a,d]", "ccc", "[Vaswani17 Eq.1]"},
    {KernelId::kAttentionContextGradient, kGemm, "rrws", 4, square<2, 1, 1>,
     "dout[b,s,a,d] qkv[b,s,n,d] dprobs[b,a,s,s]", "ccc", "[derived]"},
    {KernelId::kSoftmaxBackward, kMem, "ru", 2, streaming<kMem, 4, 0>,
     "probs[b,a,s,s] dprobs[b,a,s,s]", "cc", "[derived]"},
    {KernelId::kAttentionScoresGradient, kGemm, "rrrrws", 6, square<0, 3, 3>,
     "dscores[b,a,s,s] probs[b,a,s,s] dout[b,s,a,d] qkv[b,s,n,d] dqkv[b,s,n,d]", "ccccc",
     "[derived]"},
    {KernelId::kCrossEntropyStatistics, kMem, "rrw", 3, streaming<kMem, 2 + kExp, 0>,
     "logits[b*s,Vp] tokens[b,s+1] statistics[b*s,3]", "cit", "[Shoeybi19 sec 3]"},
    {KernelId::kCrossEntropyParallel, kMem, "urrur", 4, streaming<kMem, 4 + kExp, 0>,
     "logits[b*s,Vp] tokens[b,s+1] statistics[k,b*s,3] loss[1] scalars[11]", "citdd",
     "[Shoeybi19 sec 3]"},
    {KernelId::kCast, kMem, "rw", 2, streaming<kMem, 1, 0>, "x[n] y[n]", "ab", "[derived]"},
    // [derived] what stands beside a product counts no flop: it is done while results are stored
    {KernelId::kLinearGeluForward, kGemm, "rrrwws", 6, matmul<0, 1>,
     "x[T,k] w[k,n] bias[n] sum[T,n] y[T,n]", "ccccc", "[Hendrycks16]"},
    {KernelId::kGeluInputGradient, kGemm, "rrrws", 5, input_gradient<0, 1>,
     "dy[T,n] w[k,n] x[T,k] dx[T,k]", "cccc", "[Hendrycks16]"},
    {KernelId::kResidualLayerNormForward, kMem, "rrrrrwwww", 9, streaming<kMem, 10, 0>,
     "x[T,h] y[T,h] bias[h] gain[h] shift[h] sum[T,h] out[T,h] mean[T] rstd[T]", "ccccccctt",
     "[Ba16]"},
    {KernelId::kResidualRmsNormForward, kMem, "rrrwww", 6, streaming<kMem, 5, 0>,
     "x[T,h] y[T,h] gain[h] sum[T,h] out[T,h] rstd[T]", "ccccct", "[Zhang19]"},
    {KernelId::kDropoutForward, kMem, "rww", 3, streaming<kMem, 2 + kDraw, 0>, "x[*] mask[*] y[*]",
     "ckc", "[Srivastava14]"},
    {KernelId::kDropoutBackward, kMem, "rrw", 3, streaming<kMem, 2, 0>, "dy[*] mask[*] dx[*]",
     "ckc", "[Srivastava14]"},
    {KernelId::kDropoutResidualAdd, kMem, "rrwwr", 4, streaming<kMem, 4 + kDraw, 0>,
     "x[T,h] y[T,h] out[T,h] mask[T,h] bias[h]", "ccckc", "[Srivastava14]"},
}};

}  // namespace

const KernelDef& kernel_def(KernelId id) {
  const KernelDef& row = kTable[static_cast<std::size_t>(id)];
  ZPLAN_ASSERT(row.id == id);
  return row;
}

}  // namespace zplan
