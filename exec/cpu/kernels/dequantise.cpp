#include "exec/cpu/kernels/dequantise.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

template <typename T, typename S>
void dequantise(T* y, const CodedMatrix<S>& x) {
  const CodeTable& table = code_table(x.is_fp4);
  for_blocks(ceil_div(x.n, kCodeBlock), 1, x.n, [&](std::int64_t block, std::int64_t) {
    const double scale = x.scales != nullptr
                             ? static_cast<double>(x.scales[block])
                             : x.scale_codes[block] / kScaleSteps *
                                   static_cast<double>(x.constants[block / kScalesOfConstant]);
    const std::int64_t end = std::min(x.n, (block + 1) * kCodeBlock);
    for (std::int64_t i = block * kCodeBlock; i < end; ++i) {
      const unsigned both = x.codes[i / 2];
      const unsigned code = i % 2 == 0 ? both >> 4U : both & 15U;
      y[i] = static_cast<T>(static_cast<Compute<T>>(table[code] * scale));
    }
  });
}

#define ZPLAN_INSTANTIATE(T) template void dequantise(T*, const CodedMatrix<Compute<T>>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
