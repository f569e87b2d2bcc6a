// A row of the kernel table run twice on the same operands: by the CUDA kernels, on the host, and
// by the CPU kernels, either in float64 (the reference of a result that is rounded once) or on the
// same types (of one that is rounded on the way). Operands may lie off their alignment and have
// other bytes around them, which must not change; scratch and partial sums begin as NaN.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "exec/cpu/dispatch.h"
#include "exec/cuda/rows_model.h"
#include "exec/cuda/rows_states.h"
#include "exec/data_source.h"
#include "exec/host_kernels.h"
#include "exec/kernels/dispatch_table.h"
#include "exec/scalar.h"

namespace zplan::exec::cuda {

template <typename T>
inline constexpr DType kTypeOf = DType::kF32;
template <>
inline constexpr DType kTypeOf<__half> = DType::kF16;
template <>
inline constexpr DType kTypeOf<__nv_bfloat16> = DType::kBf16;

constexpr double epsilon(DType type) {
  switch (type) {
    case DType::kF64:
      return 0x1p-52;
    case DType::kF32:
      return 0x1p-23;
    case DType::kF16:
      return 0x1p-10;
    case DType::kBf16:
      return 0x1p-7;
    case DType::kI32:
    case DType::kU8:
      break;
  }
  return 0;
}

// Half the distance of neighbours of a type at a value, at least that of subnormal numbers.
inline double half_unit(DType type, double value) {
  const double subnormal = type == DType::kF16 ? 0x1p-25 : 0;
  return std::max(0.5 * epsilon(type) * std::abs(value), subnormal);
}

inline std::vector<double> random_values(std::int64_t n, unsigned seed, double size = 2.0) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-size, size);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& value : values) value = uniform(engine);
  return values;
}

// Memory with 64 unused bytes at least on both sides.
class GuardedMemory {
 public:
  GuardedMemory(std::size_t bytes, std::size_t shift)
      : lines_(bytes / kLine + 4), bytes_(bytes), begin_(kLine + shift) {
    std::memset(lines_.data(), kCanary, lines_.size() * kLine);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()) + begin_; }
  const std::byte* data() const {
    return reinterpret_cast<const std::byte*>(lines_.data()) + begin_;
  }
  std::size_t size() const { return bytes_; }
  bool is_intact() const {
    const auto* all = reinterpret_cast<const unsigned char*>(lines_.data());
    for (std::size_t i = 0; i < lines_.size() * kLine; ++i)
      if ((i < begin_ || i >= begin_ + bytes_) && all[i] != kCanary) return false;
    return true;
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr unsigned char kCanary = 0xa5;
  struct alignas(kLine) Line {
    unsigned char bytes[kLine];
  };
  std::vector<Line> lines_;
  std::size_t bytes_, begin_;
};

class RowCase {
 public:
  enum class Reference { kDouble, kSameTypes };

  explicit RowCase(KernelId kernel, AttributeValues attributes = {}) {
    node_.kernel = kernel;
    call_.node = &node_;
    call_.attributes = attributes;
  }

  // Elements by which the operands that follow lie off a 64-byte line.
  RowCase& shifted(std::size_t elements) {
    shift_ = elements;
    return *this;
  }
  RowCase& with(DType type, Shape shape, const std::vector<double>& values,
                Access access = Access::kRead) {
    View view;
    view.dtype = type;
    view.access = access;
    view.shape = shape;
    const auto bytes = static_cast<std::size_t>(view.bytes().value);
    const std::size_t shift = shift_ * static_cast<std::size_t>(size_of(type).value);
    operands_.push_back({view, GuardedMemory(bytes, shift), {}});
    TestOperand& operand = operands_.back();
    for (std::size_t i = 0; i < values.size(); ++i) put(operand, i, values[i]);
    return *this;
  }
  // What the kernel overwrites.
  RowCase& out(DType type, Shape shape) {
    return with(type, shape, std::vector<double>(static_cast<std::size_t>(shape.elements()), 77.0),
                Access::kWrite);
  }
  // Overwritten or, where `adds`, added to.
  RowCase& sum(DType type, Shape shape, bool adds, unsigned seed) {
    return with(type, shape, random_values(shape.elements(), seed),
                adds ? Access::kUpdate : Access::kWrite);
  }
  RowCase& scratch(std::int64_t floats) {
    return with(DType::kF32, {floats}, std::vector<double>(static_cast<std::size_t>(floats), NAN),
                Access::kScratch);
  }
  RowCase& in(Env env) {
    call_.env = env;
    return *this;
  }

  // T: compute type of the row; compute: of the CPU kernels, where they run on the same types.
  template <typename T>
  RowCase& run(Reference reference = Reference::kDouble, DType compute = DType::kF64) {
    static constexpr auto kRows = by_kernel(model_rows<T>(), state_rows<T>());
    run_reference(reference == Reference::kDouble, compute);
    std::vector<Operand> operands;
    for (TestOperand& operand : operands_)
      operands.push_back({&operand.view, operand.memory.data()});
    LaneContext lane;
    std::vector<double> partials(kPartials, NAN);
    lane.partials = partials.data();
    call_.operands = operands;
    RunServices services({&data_}, 1, train_, 0, 1);
    call_.services = &services;
    kRows[static_cast<std::size_t>(node_.kernel)].run(call_, lane);
    for (const TestOperand& operand : operands_) EXPECT_TRUE(operand.memory.is_intact());
    return *this;
  }

  double actual(std::size_t operand, std::size_t i) const {
    return load_scalar(operands_[operand].memory.data(), operands_[operand].view.dtype,
                       static_cast<std::int64_t>(i));
  }
  double expected(std::size_t operand, std::size_t i) const {
    const TestOperand& o = operands_[operand];
    return load_scalar(o.reference.data(), o.reference_type, static_cast<std::int64_t>(i));
  }
  std::size_t elements(std::size_t operand) const {
    return static_cast<std::size_t>(operands_[operand].view.shape.elements());
  }

  // Each element is the reference, rounded to the operand's type, but for `roundings` errors of
  // float on terms of the given size, which may also move the rounding.
  void expect_rounded(std::size_t operand, double roundings, double size = 1.0) const {
    const DType type = operands_[operand].view.dtype;
    for (std::size_t i = 0; i < elements(operand); ++i) {
      const double error =
          roundings * epsilon(DType::kF32) * std::max(size, std::abs(expected(operand, i)));
      ASSERT_NEAR(actual(operand, i), expected(operand, i),
                  half_unit(type, expected(operand, i)) + error)
          << "operand " << operand << ", element " << i;
    }
  }
  void expect_same(std::size_t operand) const {
    for (std::size_t i = 0; i < elements(operand); ++i)
      ASSERT_EQ(actual(operand, i), expected(operand, i))
          << "operand " << operand << ", element " << i;
  }

 private:
  struct TestOperand {
    View view;
    GuardedMemory memory;
    std::vector<std::byte> reference;
    DType reference_type = DType::kF64;
  };

  static void put(TestOperand& operand, std::size_t i, double value) {
    if (operand.view.dtype == DType::kI32) {
      reinterpret_cast<std::int32_t*>(operand.memory.data())[i] = static_cast<std::int32_t>(value);
      return;
    }
    with_float_type(operand.view.dtype, [&](auto type) {
      using T = decltype(type);
      reinterpret_cast<T*>(operand.memory.data())[i] = rounded<T>(value);
    });
  }

  // Copies of the operands, widened or not.
  void run_reference(bool wide, DType compute) {
    std::deque<View> views;
    std::vector<Operand> operands;
    for (TestOperand& o : operands_) {
      views.push_back(o.view);
      const bool widens = wide && o.view.dtype != DType::kI32;
      if (widens) {
        views.back().dtype = DType::kF64;
        o.reference.resize(sizeof(double) * static_cast<std::size_t>(o.view.shape.elements()));
        for (std::int64_t i = 0; i < o.view.shape.elements(); ++i)
          reinterpret_cast<double*>(o.reference.data())[i] =
              load_scalar(o.memory.data(), o.view.dtype, i);
      } else {
        o.reference.assign(o.memory.data(), o.memory.data() + o.memory.size());
      }
      o.reference_type = views.back().dtype;
      operands.push_back({&views.back(), o.reference.data()});
    }
    call_.operands = operands;
    RunServices services({&data_}, 1, train_, 0, 1);
    call_.services = &services;
    cpu::GemmCache gemm;
    cpu::dispatch_table(wide ? DType::kF64 : compute)[static_cast<std::size_t>(node_.kernel)].run(
        call_, gemm);
  }

  Node node_;
  KernelCall call_;
  std::size_t shift_ = 0;
  std::deque<TestOperand> operands_;
  DataSource data_{{1, 2, 3}, "rows"};
  TrainConfig train_;
};

}  // namespace zplan::exec::cuda
