#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/optimizer.h"
#include "exec/cpu/kernels/state_elements.h"

namespace zplan::exec::cpu {
namespace {

template <typename C>
struct Factors {
  C clip, decay, momentum, rate;
};

template <typename C>
Factors<C> factors_of(const AdamwScalars& s) {
  return {static_cast<C>(s.clip_coefficient), static_cast<C>(s.weight_decay),
          static_cast<C>(s.beta1), static_cast<C>(s.learning_rate)};
}

// The first `decaying` of n elements decay. m: null without momentum.
template <typename C>
void update(C* __restrict p, C* __restrict m, const C* __restrict grad, std::int64_t n,
            const Factors<C>& f, std::int64_t decaying) {
  for (std::int64_t i = 0; i < n; ++i) {
    C g = grad[i] * f.clip + (i < decaying ? f.decay * p[i] : C{0});
    if (m != nullptr) g = m[i] = f.momentum * m[i] + g;
    p[i] -= f.rate * g;
  }
}

template <typename C>
void update_mixed(const SgdShard& x, const Factors<C>& f, std::int64_t begin, std::int64_t n) {
  const bool has_momentum = x.m.data != nullptr;
  C p[kMixedBlock], m[kMixedBlock], g[kMixedBlock];
  with_type(x.master, begin, [&](auto* from) { convert(p, from, n); });
  if (has_momentum) with_type(x.m, begin, [&](auto* from) { convert(m, from, n); });
  with_type(x.grad, begin, [&](auto* from) { convert(g, from, n); });
  const std::int64_t flat = x.flat_offset + begin;
  update(p, has_momentum ? m : nullptr, g, n, f, x.decay_elements - flat);
  const bool draws_needed = has_16_bits(x.master.type) || (has_momentum && has_16_bits(x.m.type));
  const BlockDraws draws(x.draws, static_cast<std::uint64_t>(flat), draws_needed ? n : 0);
  store(x.master, begin, p, n, [&](std::int64_t i) { return draws.of_master(i); });
  if (has_momentum) store(x.m, begin, m, n, [&](std::int64_t i) { return draws.of_m(i); });
}

}  // namespace

void sgd(const AdamwScalars& scalars, const SgdShard& x) {
  const bool doubles = x.master.type == DType::kF64;
  const auto in_double = factors_of<double>(scalars);
  const auto in_float = factors_of<float>(scalars);
  for_elements(x.n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end && !scalars.skip; i += kMixedBlock) {
      const std::int64_t n = std::min(kMixedBlock, end - i);
      if (doubles) update_mixed(x, in_double, i, n);
      if (!doubles) update_mixed(x, in_float, i, n);
    }
    write_param(x.master, x.param, begin, end - begin);
  });
}

}  // namespace zplan::exec::cpu
