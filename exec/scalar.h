// One element of any floating-point type, or a byte, as a double, and back. 16-bit types are
// rounded by way of float, so a 16-bit parameter is always its float32 master, rounded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cpu/kernels/half.h"
#include "planner/core/error.h"
#include "planner/program/job/ops.h"

namespace zplan::exec {

// Calls use(T{}) with the element type.
template <typename Use>
auto with_float_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kF64:
      return use(double{});
    case DType::kF32:
      return use(float{});
    case DType::kBf16:
      return use(cpu::Bf16{});
    case DType::kF16:
      return use(cpu::Fp16{});
    case DType::kI32:
    case DType::kU8:
      break;
  }
  throw_bad_input("expected floating-point numbers, got integers");
}

inline double load_scalar(const std::byte* data, DType dtype, std::int64_t i) {
  if (dtype == DType::kU8) return static_cast<double>(std::to_integer<unsigned>(data[i]));
  return with_float_type(dtype, [&](auto type) {
    return static_cast<double>(reinterpret_cast<const decltype(type)*>(data)[i]);
  });
}

template <typename T>
T rounded(double value) {
  if constexpr (cpu::kIsHalf<T>) return T(static_cast<float>(value));
  return static_cast<T>(value);
}

}  // namespace zplan::exec
