// Values of operands as numbers in double precision.
#pragma once

#include <cstddef>
#include <cstring>

#include "exec/scalar.h"
#include "planner/program/job/ops.h"

namespace zplan::exec {

inline void store_value(std::byte* to, DType type, std::size_t i, double value) {
  if (type == DType::kI32) {
    const auto integer = static_cast<std::int32_t>(value);
    std::memcpy(to + i * sizeof integer, &integer, sizeof integer);
    return;
  }
  if (type == DType::kU8) {
    to[i] = static_cast<std::byte>(static_cast<std::int32_t>(value) & 0xff);
    return;
  }
  with_float_type(type, [&](auto kind) {
    using T = decltype(kind);
    const T number = rounded<T>(value);
    std::memcpy(to + i * sizeof number, &number, sizeof number);
  });
}

inline double load_value(const std::byte* from, DType type, std::size_t i) {
  if (type != DType::kI32) return load_scalar(from, type, static_cast<std::int64_t>(i));
  std::int32_t integer = 0;
  std::memcpy(&integer, from + i * sizeof integer, sizeof integer);
  return integer;
}

inline double rounded_to(DType type, double value) {
  std::byte place[8];
  store_value(place, type, 0, value);
  return load_value(place, type, 0);
}

}  // namespace zplan::exec
