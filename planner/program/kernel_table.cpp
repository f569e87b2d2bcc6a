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
  return {kind, Flops{n * flop_per_element}, traffic(o)};
}

// 2 m n k with x[m,k] and w[k,n] at the given operands.
template <int x, int w>
Demand matmul(Operands o) {
  const Shape& a = o[x].shape;
  const Shape& b = o[w].shape;
  const std::int64_t shared = a[a.rank - 1];
  return {WorkKind::kGemm, Flops{2 * a.elements() * (b.elements() / shared)}, traffic(o)};
}

// dx[T,k] = dy[T,n] w[k,n]^T
template <int dy, int w>
Demand input_gradient(Operands o) {
  return {WorkKind::kGemm, Flops{2 * o[dy].shape[0] * o[w].shape.elements()}, traffic(o)};
}

// dw[k,n] = x[T,k]^T dy[T,n]
template <int x, int dw>
Demand weight_gradient(Operands o) {
  return {WorkKind::kGemm, Flops{2 * o[x].shape[0] * o[dw].shape.elements()}, traffic(o)};
}

// [Dao22 sec 3] two products of b a (s^2/2) d, causal; the forward is recomputed in backward: five.
template <int qkv, int products>
Demand attention(Operands o) {
  const Shape& x = o[qkv].shape;  // [b, s, 3, a, d]
  const std::int64_t causal_pairs = x[1] * (x[1] + 1) / 2;
  return {WorkKind::kAttention, Flops{2 * products * x[0] * x[3] * x[4] * causal_pairs},
          traffic(o)};
}

// Reads only the rows of wte it looks up.
Demand embedding_forward(Operands o) {
  const Bytes x = o[3].bytes();
  return {WorkKind::kMemory, Flops{o[3].shape.elements()}, o[0].bytes() + x * 2 + o[2].bytes()};
}

// Adding touches only the rows of the batch's tokens, at most one per token: they are read and
// written. Overwriting writes the whole table once. [derived]
Demand embedding_backward(Operands o) {
  const Shape& dx = o[1].shape;
  const View& table = o[2];
  const std::int64_t touched = std::min(dx.elements(), table.shape.elements());
  const Bytes moved =
      table.access == Access::kUpdate ? size_of(table.dtype) * (2 * touched) : table.bytes();
  return {WorkKind::kMemory, Flops{2 * dx.elements()},
          traffic(o.first(2)) + moved + traffic(o.subspan(3))};
}

Demand host_work(Operands o) { return {WorkKind::kHost, Flops{0}, traffic(o)}; }

constexpr auto kMem = WorkKind::kMemory;
constexpr auto kGemm = WorkKind::kGemm;
constexpr auto kAtt = WorkKind::kAttention;
constexpr auto kHost = WorkKind::kHost;

// Flop per element of an elementwise kernel, counted from its formula (those stand at the kernels
// of exec/cpu/kernels): an addition, product, quotient, root or comparison is 1. They only matter
// on the CPU lane; a GPU streams (cost/kernel_time.h). [derived]
// exp: 6 to reduce the range and 7 multiply-adds of a polynomial good to float. [derived]
constexpr int kExp = 20;

const std::array<KernelDef, kKernelCount> kTable{{
    {KernelId::kLoadBatch, kHost, "w", 1, host_work, "tokens[b,s+1]", "i", "[derived]"},
    {KernelId::kStepScalars, kHost, "w", 1, host_work, "scalars[8]", "d",
     "[Loshchilov19 Algorithm 2]"},
    {KernelId::kEmbeddingForward, kMem, "rrrw", 4, embedding_forward,
     "tokens[b,s+1] wte[Vp,h] wpe[s,h] x[b,s,h]", "iccc", "[Radford19]"},
    {KernelId::kLayerNormForward, kMem, "rrrwww", 6, streaming<kMem, 8, 0>,
     "x[T,h] gain[h] bias[h] y[T,h] mean[T] rstd[T]", "cccctt", "[Ba16]"},
    {KernelId::kLinearForward, kGemm, "rrrws", 5, matmul<0, 1>, "x[T,k] w[k,n] bias[n] y[T,n]",
     "cccc", "[derived]"},
    {KernelId::kAttentionForward, kAtt, "rwws", 4, attention<0, 2>,
     "qkv[b,s,3,a,d] out[b,s,a,d] lse[b,a,s]", "cct", "[Dao22 sec 3]"},
    {KernelId::kGeluForward, kMem, "rw", 2, streaming<kMem, 9 + kExp, 0>, "x[*] y[*]", "cc",
     "[Hendrycks16]"},
    {KernelId::kResidualAdd, kMem, "rrw", 3, streaming<kMem, 1, 0>, "x[*] y[*] out[*]", "ccc",
     "[derived]"},
    {KernelId::kHeadForward, kGemm, "rrws", 4, weight_gradient<0, 1>,
     "x[T,h] wte[Vp,h] logits[T,Vp]", "ccc", "[derived]"},
    {KernelId::kCrossEntropy, kMem, "uru", 3, streaming<kMem, 4 + kExp, 0>,
     "logits[b*s,Vp] tokens[b,s+1] loss[1]", "cid", "[Milakov18]"},
    {KernelId::kHeadInputGradient, kGemm, "rrws", 4, input_gradient<0, 1>,
     "dlogits[T,Vp] wte[Vp,h] dx[T,h]", "ccc", "[derived]"},
    {KernelId::kHeadWeightGradient, kGemm, "rras", 4, weight_gradient<0, 2>,
     "dlogits[T,Vp] x[T,h] dwte[Vp,h]", "ccg", "[derived]"},
    {KernelId::kLayerNormBackward, kMem, "rrrrraaas", 9, streaming<kMem, 14, 0>,
     "dy[T,h] x[T,h] mean[T] rstd[T] gain[h] dx[T,h] dgain[h] dbias[h]", "ccttccgg", "[Ba16]"},
    {KernelId::kLinearInputGradient, kGemm, "rrws", 4, input_gradient<0, 1>,
     "dy[T,n] w[k,n] dx[T,k]", "ccc", "[derived]"},
    {KernelId::kLinearWeightGradient, kGemm, "rraas", 5, weight_gradient<0, 2>,
     "x[T,k] dy[T,n] dw[k,n] dbias[n]", "ccgg", "[derived]"},
    {KernelId::kAttentionBackward, kAtt, "rrrrws", 6, attention<1, 5>,
     "dout[b,s,a,d] qkv[b,s,3,a,d] out[b,s,a,d] lse[b,a,s] dqkv[b,s,3,a,d]", "ccctc",
     "[Dao22 sec 3]"},
    {KernelId::kGeluBackward, kMem, "ru", 2, streaming<kMem, 18 + kExp, 0>, "x[*] dy[*]", "cc",
     "[Hendrycks16]"},
    {KernelId::kEmbeddingBackward, kMem, "rraa", 4, embedding_backward,
     "tokens[b,s+1] dx[b,s,h] dwte[Vp,h] dwpe[s,h]", "icgg", "[Radford19]"},
    {KernelId::kFillZero, kMem, "w", 1, streaming<kMem, 0, 0>, "x[*]", "g", "[derived]"},
    {KernelId::kAccumulate, kMem, "ru", 2, streaming<kMem, 1, 0>, "x[n] y[n]", "gg", "[derived]"},
    {KernelId::kSumSquares, kMem, "ru", 2, streaming<kMem, 2, 0>, "x[n] sum[1]", "gd", "[PyTorch]"},
    {KernelId::kClipCoefficient, kMem, "rrw", 3, streaming<kMem, 4, 0>, "sum[1] scalars[8] clip[2]",
     "ddd", "[PyTorch]"},
    {KernelId::kAdamW, kMem, "uuurrrw", 6, streaming<kMem, 15, 0>,
     "master[n] m[n] v[n] grad[n] scalars[8] clip[2] param[n]", "ovvgddp",
     "[Loshchilov19 Algorithm 2]"},
    {KernelId::kReport, kHost, "rr", 2, host_work, "loss[1] clip[2]", "dd", "[derived]"},
}};

}  // namespace

const KernelDef& kernel_def(KernelId id) {
  const KernelDef& row = kTable[static_cast<std::size_t>(id)];
  ZPLAN_ASSERT(row.id == id);
  return row;
}

}  // namespace zplan
