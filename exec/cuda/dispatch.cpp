#include "exec/cuda/dispatch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "exec/cuda/rows_attention.h"
#include "exec/cuda/rows_fp8.h"
#include "exec/cuda/rows_linear.h"
#include "exec/cuda/rows_model.h"
#include "exec/cuda/rows_states.h"
#include "exec/kernels/dispatch_table.h"

namespace zplan::exec::cuda {
namespace {

template <typename T, typename ProductsOfT = Products<T>>
constexpr auto make_table() {
  return by_kernel(model_rows<T>(), attention_rows<T>(), product_rows<DispatchEntry, ProductsOfT>(),
                   state_rows<T>());
}

constexpr auto kFloatTable = make_table<float>();
constexpr auto kBf16Table = make_table<__nv_bfloat16>();
constexpr auto kFp16Table = make_table<__half>();
constexpr auto kFp8Table = make_table<__nv_bfloat16, Fp8Products<__nv_bfloat16>>();

}  // namespace

std::span<const DispatchEntry> dispatch_table(const KernelSet& set) {
  if (set.layer_products == LayerProducts::kFp8) {
    ZPLAN_ASSERT(set.compute == DType::kBf16);
    return kFp8Table;
  }
  switch (set.compute) {
    case DType::kF32:
      return kFloatTable;
    case DType::kBf16:
      return kBf16Table;
    case DType::kF16:
      return kFp16Table;
    case DType::kF64:
    case DType::kI32:
    case DType::kU8:
      break;
  }
  return {};
}

}  // namespace zplan::exec::cuda
