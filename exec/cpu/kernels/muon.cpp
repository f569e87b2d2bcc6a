#include "exec/cpu/kernels/muon.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_elements.h"

namespace zplan::exec::cpu {
namespace {

constexpr int kSteps = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // [Jordan24]
constexpr double kLeastNorm = 1e-7;                       // [PyTorch]
constexpr double kUpdateSize = 0.2;                       // [Liu25 sec 2.2]

template <typename C>
void momentum_block(const AdamwScalars& s, const MomentumShard& x, std::int64_t begin,
                    std::int64_t n) {
  C m[kMixedBlock], g[kMixedBlock];
  C* const update = at<C>(x.update, begin);
  if (s.skip) {
    std::fill_n(update, n, C{0});
    return;
  }
  const auto clip = static_cast<C>(s.clip_coefficient), keep = static_cast<C>(s.beta1),
             gain = static_cast<C>(1.0 - s.beta1);
  with_type(x.m, begin, [&](auto* from) { convert(m, from, n); });
  with_type(x.grad, begin, [&](auto* from) { convert(g, from, n); });
  for (std::int64_t i = 0; i < n; ++i) {
    const C own = g[i] * clip;
    m[i] = keep * m[i] + gain * own;
    update[i] = keep * m[i] + gain * own;
  }
  const std::int64_t flat = x.flat_offset + begin;
  const BlockDraws draws(x.draws, static_cast<std::uint64_t>(flat), has_16_bits(x.m.type) ? n : 0);
  store(x.m, begin, m, n, [&](std::int64_t i) { return draws.of_m(i); });
}

template <typename C>
void step_block(const AdamwScalars& s, const SgdShard& x, std::int64_t begin, std::int64_t n) {
  C p[kMixedBlock];
  const C* const update = at<C>(x.grad, begin);
  const auto keep = static_cast<C>(1.0 - s.learning_rate * s.weight_decay),
             rate = static_cast<C>(s.learning_rate);
  with_type(x.master, begin, [&](auto* from) { convert(p, from, n); });
  const std::int64_t flat = x.flat_offset + begin;
  for (std::int64_t i = 0; i < n; ++i)
    p[i] = p[i] * (flat + i < x.decay_elements ? keep : C{1}) - rate * update[i];
  const BlockDraws draws(x.draws, static_cast<std::uint64_t>(flat),
                         has_16_bits(x.master.type) ? n : 0);
  store(x.master, begin, p, n, [&](std::int64_t i) { return draws.of_master(i); });
}

// Calls body(begin, n) for blocks of at most kMixedBlock elements.
template <typename Body>
void for_mixed_blocks(std::int64_t count, const Body& body) {
  for_elements(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kMixedBlock) body(i, std::min(kMixedBlock, end - i));
  });
}

template <typename C>
struct Strided {
  const C* data;
  std::int64_t row, column;
  const C& operator()(std::int64_t i, std::int64_t j) const { return data[i * row + j * column]; }
};

// out [m, n] = factor start + a b, of a [m, k] and b [k, n].
template <typename C>
void multiply(C* out, C factor, const C* start, Strided<C> a, Strided<C> b, std::int64_t m,
              std::int64_t n, std::int64_t k) {
  for_blocks(m, 1, m * n * k, [&](std::int64_t i, std::int64_t) {
    for (std::int64_t j = 0; j < n; ++j)
      out[i * n + j] = start != nullptr ? factor * start[i * n + j] : C{0};
    for (std::int64_t l = 0; l < k; ++l) {
      const C own = a(i, l);
      for (std::int64_t j = 0; j < n; ++j) out[i * n + j] += own * b(l, j);
    }
  });
}

template <typename C>
void newton_schulz_step(const Orthogonalise<C>& x) {
  const std::int64_t r = x.rows, c = x.columns, q = std::min(r, c);
  const bool tall = r > c;
  const Strided<C> by_rows{x.x, c, 1}, by_columns{x.x, 1, c}, transposed{x.next, r, 1},
      gram{x.gram, q, 1}, polynomial{x.polynomial, q, 1};
  // The right factor of each product is read by rows.
  for (std::int64_t i = 0; i < r && !tall; ++i)
    for (std::int64_t j = 0; j < c; ++j) x.next[j * r + i] = x.x[i * c + j];
  multiply(x.gram, C{0}, static_cast<const C*>(nullptr), tall ? by_columns : by_rows,
           tall ? by_rows : transposed, q, q, std::max(r, c));
  multiply(x.polynomial, static_cast<C>(kB / kC), x.gram, gram, gram, q, q, q);
  for (std::int64_t i = 0; i < q * q; ++i) x.polynomial[i] *= static_cast<C>(kC);
  multiply(x.next, static_cast<C>(kA), x.x, tall ? by_rows : polynomial,
           tall ? polynomial : by_rows, r, c, q);
  std::copy_n(x.next, r * c, x.x);
}

}  // namespace

void muon_momentum(const AdamwScalars& scalars, const MomentumShard& x) {
  const bool doubles = x.update.type == DType::kF64;
  for_mixed_blocks(x.n, [&](std::int64_t begin, std::int64_t n) {
    if (doubles) momentum_block<double>(scalars, x, begin, n);
    if (!doubles) momentum_block<float>(scalars, x, begin, n);
  });
}

void muon(const AdamwScalars& scalars, const SgdShard& x) {
  const bool doubles = x.grad.type == DType::kF64;
  for_mixed_blocks(x.n, [&](std::int64_t begin, std::int64_t n) {
    if (!scalars.skip && doubles) step_block<double>(scalars, x, begin, n);
    if (!scalars.skip && !doubles) step_block<float>(scalars, x, begin, n);
    write_param(x.master, x.param, begin, n);
  });
}

template <typename C>
void orthogonalise(const Orthogonalise<C>& x) {
  const std::int64_t n = x.rows * x.columns;
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) squares += static_cast<double>(x.x[i]) * x.x[i];
  const auto norm = static_cast<C>(std::max(std::sqrt(squares), kLeastNorm));
  for (std::int64_t i = 0; i < n; ++i) x.x[i] /= norm;
  for (int step = 0; step < kSteps; ++step) newton_schulz_step(x);
  const auto size =
      static_cast<C>(kUpdateSize * std::sqrt(static_cast<double>(std::max(x.rows, x.columns))));
  for (std::int64_t i = 0; i < n; ++i) x.x[i] *= size;
}

template void orthogonalise<double>(const Orthogonalise<double>&);
template void orthogonalise<float>(const Orthogonalise<float>&);

}  // namespace zplan::exec::cpu
