#include "exec/cpu/kernels/gemm.h"

#include <map>

#include "exec/cpu/kernels/dnnl_gemm.h"

namespace zplan::exec::cpu {

GemmShape with_leading_dimensions(GemmShape shape) {
  if (shape.lda == 0) shape.lda = shape.op == GemmOp::kTN ? shape.m : shape.k;
  if (shape.ldb == 0) shape.ldb = shape.op == GemmOp::kNT ? shape.k : shape.n;
  if (shape.ldc == 0) shape.ldc = shape.n;
  return shape;
}

struct GemmCache::Entries {
  std::map<GemmShape, std::unique_ptr<DnnlGemm>> floats;  // null: runs on blocked_gemm

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

template <>
void GemmCache::prepare<float>(const GemmShape& shape) {
  const auto [place, is_new] = entries_->floats.try_emplace(shape);
  if (is_new) place->second = DnnlGemm::create(shape);
}

template <>
void GemmCache::prepare<double>(const GemmShape&) {}  // nothing to build

template <>
Bytes GemmCache::scratch_bytes<float>(const GemmShape& shape) const {
  const std::unique_ptr<DnnlGemm>& entry = entries_->at(shape);
  return entry ? entry->scratch_bytes() : blocked_gemm_scratch_bytes<float>(shape);
}

template <>
Bytes GemmCache::scratch_bytes<double>(const GemmShape& shape) const {
  return blocked_gemm_scratch_bytes<double>(shape);
}

template <>
void GemmCache::run<float>(const GemmShape& shape, const GemmOperands<float>& operands,
                           Scratch scratch) {
  const std::unique_ptr<DnnlGemm>& entry = entries_->at(shape);
  if (entry) {
    entry->run(operands, scratch);
  } else {
    blocked_gemm<float>(shape, operands, scratch);
  }
}

template <>
void GemmCache::run<double>(const GemmShape& shape, const GemmOperands<double>& operands,
                            Scratch scratch) {
  blocked_gemm<double>(shape, operands, scratch);
}

}  // namespace zplan::exec::cpu
