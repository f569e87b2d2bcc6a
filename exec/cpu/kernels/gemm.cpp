#include "exec/cpu/kernels/gemm.h"

#include <map>

#include "exec/cpu/kernels/dnnl_gemm.h"
#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

GemmShape with_leading_dimensions(GemmShape shape) {
  if (shape.lda == 0) shape.lda = shape.op == GemmOp::kTN ? shape.m : shape.k;
  if (shape.ldb == 0) shape.ldb = shape.op == GemmOp::kNT ? shape.k : shape.n;
  if (shape.ldc == 0) shape.ldc = shape.n;
  return shape;
}

struct GemmCache::Entries {
  std::map<GemmShape, std::unique_ptr<DnnlGemm>> floats;  // null: not on oneDNN

  const std::unique_ptr<DnnlGemm>& at(const GemmShape& shape) const {
    const auto found = floats.find(shape);
    ZPLAN_ASSERT(found != floats.end());  // run without prepare
    return found->second;
  }
};

GemmCache::GemmCache() : entries_(std::make_unique<Entries>()) {}
GemmCache::~GemmCache() = default;
GemmCache::GemmCache(GemmCache&&) noexcept = default;
GemmCache& GemmCache::operator=(GemmCache&&) noexcept = default;

template <typename T>
void GemmCache::prepare(const GemmShape& shape) {
  if constexpr (std::is_same_v<T, float>) {  // nothing to build for the others
    const auto [place, is_new] = entries_->floats.try_emplace(shape);
    if (is_new && !amx_multiplies(shape)) place->second = DnnlGemm::create(shape);
  }
}

template <typename T>
Bytes GemmCache::scratch_bytes(const GemmShape& shape) const {
  if constexpr (kIsHalf<T>) return mixed_gemm_scratch_bytes();
  if constexpr (std::is_same_v<T, float>) {
    const std::unique_ptr<DnnlGemm>& entry = entries_->at(shape);
    if (entry) return entry->scratch_bytes();
    if (amx_multiplies(shape)) return amx_gemm_scratch_bytes();
  }
  return blocked_gemm_scratch_bytes<Compute<T>>(shape);
}

template <typename T, typename C>
void GemmCache::run(const GemmShape& shape, const GemmOperands<T, C>& operands, Scratch scratch) {
  if constexpr (kIsHalf<T>) {
    mixed_gemm<T, C>(shape, operands, scratch);
  } else {
    if constexpr (std::is_same_v<T, float>) {
      const std::unique_ptr<DnnlGemm>& entry = entries_->at(shape);
      if (entry) return entry->run(operands, scratch);
      if (amx_multiplies(shape)) return amx_gemm(shape, operands, scratch);
    }
    blocked_gemm<T>(shape, operands, scratch);
  }
}

#define ZPLAN_INSTANTIATE(T)                             \
  template void GemmCache::prepare<T>(const GemmShape&); \
  template Bytes GemmCache::scratch_bytes<T>(const GemmShape&) const;
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, C) \
  template void GemmCache::run<T, C>(const GemmShape&, const GemmOperands<T, C>&, Scratch);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
