#include "exec/cpu/kernels/optimizer.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"
#include "planner/core/error.h"

namespace zplan::exec::cpu {
namespace {

constexpr double kClipEps = 1e-6;               // [PyTorch] clip_grad_norm_
constexpr std::int64_t kMostPartialSums = 256;  // 2 KiB on the stack

// The step's scalars in the type of the computation.
template <typename T>
struct UpdateFactors {
  T clip, keep, beta1, gain1, beta2, gain2, step_size, root_correction2, eps;
};

template <typename T>
UpdateFactors<T> update_factors(const AdamwScalars& s) {
  return {static_cast<T>(s.clip_coefficient),
          static_cast<T>(1.0 - s.learning_rate * s.weight_decay),
          static_cast<T>(s.beta1),
          static_cast<T>(1.0 - s.beta1),
          static_cast<T>(s.beta2),
          static_cast<T>(1.0 - s.beta2),
          static_cast<T>(s.learning_rate / s.bias_correction1),
          static_cast<T>(std::sqrt(s.bias_correction2)),
          static_cast<T>(s.eps)};
}

// n elements, all of which decay by `keep` (1: none does).
template <typename C>
void update(C* __restrict p, C* __restrict m, C* __restrict v, const C* __restrict grad,
            std::int64_t n, const UpdateFactors<C>& f, C keep) {
  for (std::int64_t i = 0; i < n; ++i) {
    const C g = grad[i] * f.clip;
    m[i] = f.beta1 * m[i] + f.gain1 * g;
    v[i] = f.beta2 * v[i] + f.gain2 * g * g;
    const C denominator = std::sqrt(v[i]) / f.root_correction2 + f.eps;
    p[i] = p[i] * keep - f.step_size * (m[i] / denominator);
  }
}

// The first `decaying` of n elements decay.
template <typename C>
void update_all(C* p, C* m, C* v, const C* grad, std::int64_t n, const UpdateFactors<C>& f,
                std::int64_t decaying) {
  const std::int64_t border = std::clamp<std::int64_t>(decaying, 0, n);
  update(p, m, v, grad, border, f, f.keep);
  update(p + border, m + border, v + border, grad + border, n - border, f, static_cast<C>(1));
}

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

template <typename T>
T* at(const Elements& elements, std::int64_t i) {
  return static_cast<T*>(elements.data) + i;
}

// Calls body(T*) with the elements from i on.
template <typename Body>
void with_type(const Elements& elements, std::int64_t i, const Body& body) {
  switch (elements.type) {
    case DType::kF64:
      return body(at<double>(elements, i));
    case DType::kF32:
      return body(at<float>(elements, i));
    case DType::kBf16:
      return body(at<Bf16>(elements, i));
    case DType::kF16:
      return body(at<Fp16>(elements, i));
    case DType::kI32:
    case DType::kU8:
      break;
  }
  ZPLAN_ASSERT(false);
}

template <typename To, typename From>
void convert(To* to, const From* from, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

void write_param(const AdamwShard& x, std::int64_t begin, std::int64_t n) {
  if (x.param.data == nullptr || x.param.data == x.master.data) return;
  with_type(x.master, begin, [&](auto* master) {
    with_type(x.param, begin, [&](auto* param) { convert(param, master, n); });
  });
}

bool has_16_bits(DType type) { return type == DType::kBf16 || type == DType::kF16; }

// Elements worked on at a time where types are mixed: 14 KiB with the random words.
constexpr std::int64_t kMixedBlock = 512;

// Sixteen random bits per element for the master and for each moment.
class BlockDraws {
 public:
  // Elements from flat index `first` on; one draw of four words serves two elements.
  BlockDraws(const RoundingDraws& draws, std::uint64_t first, std::int64_t n)
      : offset_(static_cast<std::int64_t>(first % 2)) {
    const std::int64_t pairs = (offset_ + n + 1) / 2;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::uint64_t pair = first / 2 + static_cast<std::uint64_t>(i);
      const PhiloxCounter words =
          philox4x32({static_cast<std::uint32_t>(pair),
                      static_cast<std::uint32_t>(pair >> 32) | kDomain, draws.step, draws.place},
                     draws.key);
      std::copy(words.begin(), words.end(), words_ + 4 * i);
    }
  }
  std::uint32_t of_master(std::int64_t i) const { return words_[2 * (offset_ + i)]; }
  std::uint32_t of_m(std::int64_t i) const { return words_[2 * (offset_ + i)] >> 16; }
  std::uint32_t of_v(std::int64_t i) const { return words_[2 * (offset_ + i) + 1]; }

 private:
  static constexpr std::uint32_t kDomain = 0x80000000u;  // no other draw has so great an index
  std::int64_t offset_;
  std::uint32_t words_[2 * kMixedBlock + 4];
};

// draw(i): random bits of element i.
template <typename Draw>
void store(const Elements& elements, std::int64_t begin, const float* from, std::int64_t n,
           const Draw& draw) {
  with_type(elements, begin, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    if constexpr (kIsHalf<T>) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = round_stochastically<T>(from[i], draw(i));
    } else {
      convert(to, from, n);
    }
  });
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
    write_param(x, begin, end - begin);
  });
}

#define ZPLAN_INSTANTIATE(T) template void sum_squares<T>(double*, const T*, std::int64_t);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
