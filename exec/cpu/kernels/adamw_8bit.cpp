#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/adamw_step.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_elements.h"
#include "exec/kernels/dynamic_codes.h"

namespace zplan::exec::cpu {
namespace {

// The values of a block's bytes.
template <typename C>
void decode(C* to, const std::uint8_t* codes, C scale, std::int64_t n,
            const DynamicCodes<C>& table) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = table.values[codes[i]] * scale;
}

// Returns the scale.
template <typename C>
C encode(std::uint8_t* codes, const C* from, std::int64_t n, const DynamicCodes<C>& table) {
  C scale = 0;
  for (std::int64_t i = 0; i < n; ++i) scale = std::max(scale, std::abs(from[i]));
  for (std::int64_t i = 0; i < n; ++i) codes[i] = table.code(scale > 0 ? from[i] / scale : C{0});
  return scale;
}

template <typename C>
class BlockUpdate {
 public:
  BlockUpdate(const AdamwScalars& scalars, const AdamwBlockShard& x)
      : factors_(update_factors<C>(scalars)), x_(x), shard_(x.shard) {}

  void run(std::int64_t number) const {
    const std::int64_t first = number * x_.block, n = std::min(x_.block, shard_.n - first);
    C m[kMostBlock], v[kMostBlock];
    std::uint8_t* const m_codes = at<std::uint8_t>(shard_.m, first);
    std::uint8_t* const v_codes = at<std::uint8_t>(shard_.v, first);
    C* const m_scale = at<C>(x_.m_scale, number);
    C* const v_scale = at<C>(x_.v_scale, number);
    decode(m, m_codes, *m_scale, n, kSignedCodes<C>);
    decode(v, v_codes, *v_scale, n, kUnsignedCodes<C>);
    for (std::int64_t i = 0; i < n; i += kMixedBlock)
      update_parameters(first + i, m + i, v + i, std::min(kMixedBlock, n - i));
    *m_scale = encode(m_codes, m, n, kSignedCodes<C>);
    *v_scale = encode(v_codes, v, n, kUnsignedCodes<C>);
  }

 private:
  void update_parameters(std::int64_t begin, C* m, C* v, std::int64_t n) const {
    C p[kMixedBlock], g[kMixedBlock];
    with_type(shard_.master, begin, [&](auto* from) { convert(p, from, n); });
    with_type(shard_.grad, begin, [&](auto* from) { convert(g, from, n); });
    const std::int64_t flat = shard_.flat_offset + begin;
    update_all(p, m, v, g, n, factors_, shard_.decay_elements - flat);
    if constexpr (std::is_same_v<C, float>) {
      const BlockDraws draws(shard_.draws, static_cast<std::uint64_t>(flat),
                             has_16_bits(shard_.master.type) ? n : 0);
      store(shard_.master, begin, p, n, [&](std::int64_t i) { return draws.of_master(i); });
    } else {
      convert(at<C>(shard_.master, begin), p, n);
    }
  }

  const UpdateFactors<C> factors_;
  const AdamwBlockShard& x_;
  const AdamwShard& shard_;
};

}  // namespace

void adamw_8bit(const AdamwScalars& scalars, const AdamwBlockShard& x) {
  const bool doubles = x.m_scale.type == DType::kF64;
  const BlockUpdate<double> in_double(scalars, x);
  const BlockUpdate<float> in_float(scalars, x);
  for_blocks(ceil_div(x.shard.n, x.block), 1, x.shard.n, [&](std::int64_t number, std::int64_t) {
    const std::int64_t first = number * x.block;
    if (!scalars.skip && doubles) in_double.run(number);
    if (!scalars.skip && !doubles) in_float.run(number);
    write_param(x.shard.master, x.shard.param, first, std::min(x.block, x.shard.n - first));
  });
}

}  // namespace zplan::exec::cpu
