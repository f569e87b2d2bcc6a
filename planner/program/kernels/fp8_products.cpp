#include "planner/program/kernels/fp8_products.h"

namespace zplan {

bool multiplies_in_fp8(const KernelSet& set, KernelId kernel, std::span<const View> operands) {
  if (!multiplies_in_fp8(set, kernel)) return false;
  const KernelDef& def = kernel_def(kernel);
  return def.sets == Sets::kExperts || fits_fp8(def.demand(CallViews{operands}).product);
}

Bytes fp8_cast_bytes(const Product& p) {
  constexpr std::int64_t kStored = 2, kReads = 2, kCode = 1;
  return {(kReads * kStored + kCode) * p.batch * (p.m * p.k + p.k * p.n)};
}

Fp8Scratch fp8_scratch(const Product& p) {
  const Bytes scale = size_of(DType::kF32) * (1 + kFp8Parts);
  Fp8Scratch at;
  at.b = round_up(Bytes{p.m * p.k}, kBufferAlignment);
  at.a_scale = at.b + round_up(Bytes{p.k * p.n}, kBufferAlignment);
  at.b_scale = at.a_scale + scale;
  at.rest = at.b_scale + scale;
  return at;
}

}  // namespace zplan
