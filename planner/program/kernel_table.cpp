#include "planner/program/kernel_table.h"

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

Demand host_work(Operands o) { return {WorkKind::kHost, Flops{0}, traffic(o)}; }

const char* same_elements(Operands o, std::size_t a, std::size_t b) {
  return o[a].shape.elements() == o[b].shape.elements() ? nullptr : "operands differ in elements";
}

const char* any_shape(Operands) { return nullptr; }

template <int a, int b>
const char* pair_matches(Operands o) {
  return same_elements(o, a, b);
}

const char* linear_matches(Operands o) {
  const bool ok = o[0].shape.rank == 2 && o[1].shape.rank == 2 && o[0].shape[1] == o[1].shape[0] &&
                  o[2].shape.elements() == o[1].shape[1] && o[3].shape[0] == o[0].shape[0] &&
                  o[3].shape[1] == o[1].shape[1];
  return ok ? nullptr : "expected x[T,k] w[k,n] bias[n] y[T,n]";
}

const char* input_gradient_matches(Operands o) {
  const bool ok = o[0].shape[1] == o[1].shape[1] && o[2].shape[0] == o[0].shape[0] &&
                  o[2].shape[1] == o[1].shape[0];
  return ok ? nullptr : "expected dy[T,n] w[k,n] dx[T,k]";
}

const char* weight_gradient_matches(Operands o) {
  const bool ok = o[0].shape[0] == o[1].shape[0] && o[2].shape[0] == o[0].shape[1] &&
                  o[2].shape[1] == o[1].shape[1] && o[3].shape.elements() == o[1].shape[1];
  return ok ? nullptr : "expected x[T,k] dy[T,n] dw[k,n] dbias[n]";
}

const char* head_matches(Operands o) {
  const bool ok = o[0].shape[1] == o[1].shape[1] && o[2].shape[1] == o[1].shape[0] &&
                  o[2].shape[0] == o[0].shape[0];
  return ok ? nullptr : "expected x[T,h] wte[Vp,h] logits[T,Vp]";
}

const char* head_input_matches(Operands o) {
  const bool ok = o[0].shape[1] == o[1].shape[0] && o[2].shape[1] == o[1].shape[1];
  return ok ? nullptr : "expected dlogits[T,Vp] wte[Vp,h] dx[T,h]";
}

const char* head_weight_matches(Operands o) {
  const bool ok = o[0].shape[1] == o[2].shape[0] && o[1].shape[1] == o[2].shape[1];
  return ok ? nullptr : "expected dlogits[T,Vp] x[T,h] dwte[Vp,h]";
}

const char* adamw_matches(Operands o) {
  for (std::size_t i : {1, 2, 3})
    if (const char* why = same_elements(o, 0, i)) return why;
  return o.size() < 7 ? nullptr : same_elements(o, 0, 6);
}

constexpr auto kMem = WorkKind::kMemory;
constexpr auto kGemm = WorkKind::kGemm;
constexpr auto kAtt = WorkKind::kAttention;
constexpr auto kHost = WorkKind::kHost;

// Elementwise flop per element are small integers counted from the definition of each function;
// they only matter where a device is slow at vector arithmetic. [derived]
const std::array<KernelDef, kKernelCount> kTable{{
    {KernelId::kLoadBatch, kHost, "w", 1, host_work, any_shape},
    {KernelId::kStepScalars, kHost, "w", 1, host_work, any_shape},
    {KernelId::kEmbeddingForward, kMem, "rrrw", 4, embedding_forward, any_shape},
    {KernelId::kLayerNormForward, kMem, "rrrwww", 6, streaming<kMem, 8, 0>, pair_matches<0, 3>},
    {KernelId::kLinearForward, kGemm, "rrrws", 5, matmul<0, 1>, linear_matches},
    {KernelId::kAttentionForward, kAtt, "rwws", 4, attention<0, 2>, any_shape},
    {KernelId::kGeluForward, kMem, "rw", 2, streaming<kMem, 12, 0>, pair_matches<0, 1>},
    {KernelId::kResidualAdd, kMem, "rrw", 3, streaming<kMem, 1, 0>, pair_matches<0, 2>},
    {KernelId::kHeadForward, kGemm, "rrws", 4, weight_gradient<0, 1>, head_matches},
    {KernelId::kCrossEntropy, kMem, "uru", 3, streaming<kMem, 6, 0>, any_shape},
    {KernelId::kHeadInputGradient, kGemm, "rrws", 4, input_gradient<0, 1>, head_input_matches},
    {KernelId::kHeadWeightGradient, kGemm, "rras", 4, weight_gradient<0, 2>, head_weight_matches},
    {KernelId::kLayerNormBackward, kMem, "rrrrraaas", 9, streaming<kMem, 14, 0>,
     pair_matches<0, 5>},
    {KernelId::kLinearInputGradient, kGemm, "rrws", 4, input_gradient<0, 1>,
     input_gradient_matches},
    {KernelId::kLinearWeightGradient, kGemm, "rraas", 5, weight_gradient<0, 2>,
     weight_gradient_matches},
    {KernelId::kAttentionBackward, kAtt, "rrrrws", 6, attention<1, 5>, pair_matches<1, 4>},
    {KernelId::kGeluBackward, kMem, "ru", 2, streaming<kMem, 20, 0>, pair_matches<0, 1>},
    {KernelId::kEmbeddingBackward, kMem, "rraa", 4, streaming<kMem, 2, 1>, any_shape},
    {KernelId::kFillZero, kMem, "w", 1, streaming<kMem, 0, 0>, any_shape},
    {KernelId::kAccumulate, kMem, "ru", 2, streaming<kMem, 1, 0>, pair_matches<0, 1>},
    {KernelId::kSumSquares, kMem, "ru", 2, streaming<kMem, 2, 0>, any_shape},
    {KernelId::kClipCoefficient, kMem, "rrw", 3, streaming<kMem, 4, 0>, any_shape},
    {KernelId::kAdamW, kMem, "uuurrrw", 6, streaming<kMem, 15, 0>, adamw_matches},
    {KernelId::kReport, kHost, "rr", 2, host_work, any_shape},
}};

}  // namespace

const KernelDef& kernel_def(KernelId id) {
  const KernelDef& row = kTable[static_cast<std::size_t>(id)];
  ZPLAN_ASSERT(row.id == id);
  return row;
}

}  // namespace zplan
