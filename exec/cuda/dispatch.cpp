#include "exec/cuda/dispatch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "exec/cuda/rows_attention.h"
#include "exec/cuda/rows_linear.h"
#include "exec/cuda/rows_model.h"
#include "exec/cuda/rows_states.h"
#include "exec/kernels/dispatch_table.h"

namespace zplan::exec::cuda {
namespace {

template <typename T>
constexpr auto make_table() {
  return by_kernel(model_rows<T>(), attention_rows<T>(), product_rows<DispatchEntry, Products<T>>(),
                   state_rows<T>());
}

constexpr auto kFloatTable = make_table<float>();
constexpr auto kBf16Table = make_table<__nv_bfloat16>();
constexpr auto kFp16Table = make_table<__half>();

}  // namespace

std::span<const DispatchEntry> dispatch_table(DType compute) {
  switch (compute) {
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
