#include "exec/cpu/kernels/sinks.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

template <typename T>
void sinks_forward(const SinksShape& s, const SinksForward<T>& x) {
  using C = Compute<T>;
  const std::int64_t rows = s.batch * s.sequence * s.heads, v = s.value_dim;
  for_rows(rows, v, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t head = row % s.heads, token = row / s.heads;
      C& lse = x.lse[(token / s.sequence * s.heads + head) * s.sequence + token % s.sequence];
      const C sink = static_cast<C>(x.sinks[head]), most = std::max(lse, sink);
      const C after = most + std::log(std::exp(lse - most) + std::exp(sink - most));
      const C kept = std::exp(lse - after);
      T* out = x.out + row * v;
      for (std::int64_t j = 0; j < v; ++j) out[j] = static_cast<T>(static_cast<C>(out[j]) * kept);
      lse = after;
    }
  });
}

template <typename T, typename G>
void sinks_backward(const SinksShape& s, const SinksBackward<T, G>& x) {
  using C = Compute<T>;
  const std::int64_t tokens = s.batch * s.sequence, v = s.value_dim;
  for_blocks(s.heads, 1, tokens * s.heads * v, [&](std::int64_t head, std::int64_t) {
    const C sink = static_cast<C>(x.sinks[head]);
    C sum = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t at = (t * s.heads + head) * v;
      C product = 0;
      for (std::int64_t j = 0; j < v; ++j)
        product += static_cast<C>(x.dout[at + j]) * static_cast<C>(x.out[at + j]);
      const std::int64_t row = (t / s.sequence * s.heads + head) * s.sequence + t % s.sequence;
      sum += std::exp(sink - x.lse[row]) * product;
    }
    G& target = x.dsinks[head];
    target = static_cast<G>(x.accumulate ? static_cast<C>(target) - sum : -sum);
  });
}

#define ZPLAN_INSTANTIATE(T) \
  template void sinks_forward<T>(const SinksShape&, const SinksForward<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void sinks_backward<T, G>(const SinksShape&, const SinksBackward<T, G>&);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
