#include "exec/cpu/kernels/optimizer.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/adamw_step.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_elements.h"

namespace zplan::exec::cpu {
namespace {

constexpr double kClipEps = 1e-6;               // [PyTorch] clip_grad_norm_
constexpr std::int64_t kMostPartialSums = 256;  // 2 KiB on the stack

template <typename T>
double squares_of(const T* x, std::int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = static_cast<Compute<T>>(x[i]);
    sum += value * value;
  }
  return sum;
}

// At most kMixedBlock elements from `begin` on, through floats on the stack.
void update_mixed(const AdamwShard& x, const UpdateFactors<float>& factors, std::int64_t begin,
                  std::int64_t n) {
  alignas(kVectorBytes) float p[kMixedBlock], m[kMixedBlock], v[kMixedBlock], g[kMixedBlock];
  with_type(x.master, begin, [&](auto* from) { convert(p, from, n); });
  with_type(x.m, begin, [&](auto* from) { convert(m, from, n); });
  with_type(x.v, begin, [&](auto* from) { convert(v, from, n); });
  with_type(x.grad, begin, [&](auto* from) { convert(g, from, n); });
  const std::int64_t flat = x.flat_offset + begin;
  update_all(p, m, v, g, n, factors, x.decay_elements - flat);
  const bool draws_needed = has_16_bits(x.master.type) || has_16_bits(x.m.type);
  const BlockDraws draws(x.draws, static_cast<std::uint64_t>(flat), draws_needed ? n : 0);
  store(x.master, begin, p, n, [&](std::int64_t i) { return draws.of_master(i); });
  store(x.m, begin, m, n, [&](std::int64_t i) { return draws.of_m(i); });
  store(x.v, begin, v, n, [&](std::int64_t i) { return draws.of_v(i); });
}

// All four of one type.
template <typename C>
void update_alike(const AdamwShard& x, const UpdateFactors<C>& factors, std::int64_t begin,
                  std::int64_t n) {
  update_all(at<C>(x.master, begin), at<C>(x.m, begin), at<C>(x.v, begin), at<C>(x.grad, begin), n,
             factors, x.decay_elements - x.flat_offset - begin);
}

}  // namespace

template <typename T>
void sum_squares(double* sum, const T* x, std::int64_t n) {
  const std::int64_t block =
      std::max(kElementBlock, round_up(ceil_div(n, kMostPartialSums), kElementBlock));
  double partial[kMostPartialSums] = {};
  for_blocks(n, block, n, [&](std::int64_t begin, std::int64_t end) {
    partial[begin / block] = squares_of(x + begin, end - begin);
  });
  for (std::int64_t i = 0; i < ceil_div(n, block); ++i) *sum += partial[i];
}

ClipResult clip_coefficient(double global_sum_of_squares, double max_norm) {
  const double norm = std::sqrt(global_sum_of_squares);
  if (!std::isfinite(norm)) return {norm, 0.0, true};
  return {norm, std::min(1.0, max_norm / (norm + kClipEps)), false};
}

void adamw(const AdamwScalars& scalars, const AdamwShard& x) {
  const auto all_are = [&](DType type) {
    return x.master.type == type && x.m.type == type && x.v.type == type && x.grad.type == type;
  };
  const bool doubles = all_are(DType::kF64), floats = all_are(DType::kF32);
  const auto in_double = update_factors<double>(scalars);
  const auto in_float = update_factors<float>(scalars);
  for_elements(x.n, [&](std::int64_t begin, std::int64_t end) {
    if (!scalars.skip && doubles) update_alike(x, in_double, begin, end - begin);
    if (!scalars.skip && floats) update_alike(x, in_float, begin, end - begin);
    for (std::int64_t i = begin; i < end && !scalars.skip && !doubles && !floats; i += kMixedBlock)
      update_mixed(x, in_float, i, std::min(kMixedBlock, end - i));
    write_param(x.master, x.param, begin, end - begin);
  });
}

#define ZPLAN_INSTANTIATE(T) template void sum_squares<T>(double*, const T*, std::int64_t);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
