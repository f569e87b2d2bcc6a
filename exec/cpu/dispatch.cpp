#include "exec/cpu/dispatch.h"

#include "exec/cpu/rows_attention.h"
#include "exec/cpu/rows_chosen.h"
#include "exec/cpu/rows_dropout.h"
#include "exec/cpu/rows_ends.h"
#include "exec/cpu/rows_experts.h"
#include "exec/cpu/rows_linear.h"
#include "exec/cpu/rows_mixers.h"
#include "exec/cpu/rows_model.h"
#include "exec/cpu/rows_relative.h"
#include "exec/cpu/rows_states.h"
#include "exec/kernels/dispatch_table.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
constexpr auto make_table() {
  return by_kernel(model_rows<T>(), attention_rows<T>(), chosen_rows<T>(),
                   product_rows<DispatchEntry, Products<T>>(), expert_rows<T>(), mixer_rows<T>(),
                   relative_rows<T>(), end_rows<T>(), state_rows<T>(), dropout_rows_of<T>());
}

constexpr auto kDoubleTable = make_table<double>();
constexpr auto kFloatTable = make_table<float>();
constexpr auto kBf16Table = make_table<Bf16>();
constexpr auto kFp16Table = make_table<Fp16>();

}  // namespace

std::span<const DispatchEntry> dispatch_table(DType compute) {
  switch (compute) {
    case DType::kF64:
      return kDoubleTable;
    case DType::kF32:
      return kFloatTable;
    case DType::kBf16:
      return kBf16Table;
    case DType::kF16:
      return kFp16Table;
    case DType::kI32:
    case DType::kU8:
      break;
  }
  return {};
}

}  // namespace zplan::exec::cpu
