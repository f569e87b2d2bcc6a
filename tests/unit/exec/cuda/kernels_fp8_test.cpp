// Casts to fp8 by the CUDA kernels, on the host: the numbers of round_fp8 on the CPU, bit for bit.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "exec/cpu/kernels/round_fp8.h"
#include "exec/cuda/kernels/cast_fp8.h"
#include "planner/program/kernels/fp8_products.h"
#include "tests/support/sanitized.h"

namespace zplan::exec::cuda {
namespace {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<__nv_bfloat16> x;
};

// Rows begin `shift` elements off 16 bytes.
struct Cast {
  Cast(const Matrix& m, Fp8Format format, bool transposes, std::size_t shift = 0) {
    const auto n = static_cast<std::size_t>(m.rows * m.columns);
    codes.resize(n / sizeof(uint4));
    std::vector<uint4> aligned(n / 8 + 2);
    auto* const x = reinterpret_cast<__nv_bfloat16*>(aligned.data()) + shift;
    std::copy(m.x.begin(), m.x.end(), x);
    std::vector<float> parts(kFp8Parts);
    cast_fp8<__nv_bfloat16>(nullptr, {.codes = reinterpret_cast<std::uint8_t*>(codes.data()),
                                      .scale = &scale,
                                      .parts = parts.data(),
                                      .x = x,
                                      .rows = m.rows,
                                      .columns = m.columns,
                                      .format = format,
                                      .transposes = transposes});
  }
  std::uint8_t code(std::int64_t i) const {
    return reinterpret_cast<const std::uint8_t*>(codes.data())[i];
  }

  std::vector<uint4> codes;
  float scale = 0;
};

double decoded(std::uint8_t code, Fp8Format format) {
  const auto as = format == Fp8Format::kE4m3 ? __NV_E4M3 : __NV_E5M2;
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, as)));
}

std::vector<double> rounded_by_the_cpu(const Matrix& m, Fp8Format format) {
  std::vector<double> y;
  for (const __nv_bfloat16 value : m.x) y.push_back(__bfloat162float(value));
  cpu::round_fp8(
      y.data(), y.data(),
      {m.rows, m.columns, m.rows, m.columns, format == Fp8Format::kE4m3 ? cpu::kE4m3 : cpu::kE5m2});
  return y;
}

// Codes times the scale that float64 would have.
void expect_numbers_of_the_cpu(const Matrix& m, Fp8Format format) {
  const std::vector<double> expected = rounded_by_the_cpu(m, format);
  double greatest = 0;
  for (const __nv_bfloat16 value : m.x)
    greatest = std::max(greatest, std::abs(static_cast<double>(__bfloat162float(value))));
  const double scale = greatest > 0 ? greatest / (format == Fp8Format::kE4m3 ? 448 : 57344) : 1;
  for (const bool transposes : {false, true}) {
    const Cast cast(m, format, transposes);
    EXPECT_EQ(cast.scale, static_cast<float>(scale));
    for (std::int64_t i = 0; i < m.rows; ++i)
      for (std::int64_t j = 0; j < m.columns; ++j) {
        const std::int64_t at = i * m.columns + j, to = transposes ? j * m.rows + i : at;
        ASSERT_EQ(decoded(cast.code(to), format) * scale, expected[static_cast<std::size_t>(at)])
            << "row " << i << ", column " << j << (transposes ? ", transposed" : "");
      }
  }
}

Matrix random_matrix(std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Matrix m{rows, columns, {}};
  for (std::int64_t i = 0; i < rows * columns; ++i) m.x.push_back(__float2bfloat16(normal(engine)));
  return m;
}

constexpr Fp8Format kFormats[] = {Fp8Format::kE4m3, Fp8Format::kE5m2};

TEST(CastFp8, OfAllSizesThatProductsHave) {
  for (const Fp8Format format : kFormats)
    for (const auto& [rows, columns] : {std::pair{16, 16}, {64, 64}, {80, 144}, {192, 48}})
      expect_numbers_of_the_cpu(random_matrix(rows, columns, 1), format);
}

// Every number of bf16 over 35 powers of two up to the greatest, which have all mantissas: ties and
// what is too small are among them. Sanitizers look at a part of the mantissas.
TEST(CastFp8, OfEveryNumberLiesWhereTheCpuHasIt) {
  constexpr int kStride = static_cast<int>(testing_support::kEvery);
  for (int mantissa = 0; mantissa < 128; mantissa += kStride) {
    const std::uint16_t one = 0x3f80, greatest = static_cast<std::uint16_t>(one + mantissa);
    Matrix m{16, 0, {}};
    for (std::uint16_t bits = static_cast<std::uint16_t>(greatest - 0x1180); bits <= greatest;
         ++bits)
      m.x.push_back(std::bit_cast<__nv_bfloat16>(bits));
    while (m.x.size() % 256 != 0) m.x.push_back(__float2bfloat16(-0.5F));
    m.columns = std::ssize(m.x) / 16;
    for (const Fp8Format format : kFormats) expect_numbers_of_the_cpu(m, format);
  }
}

TEST(CastFp8, OfZerosIsZero) {
  Matrix m{16, 32, std::vector<__nv_bfloat16>(512, __float2bfloat16(0))};
  const Cast cast(m, Fp8Format::kE4m3, false);
  EXPECT_EQ(cast.scale, 1);
  for (std::int64_t i = 0; i < 512; ++i) ASSERT_EQ(cast.code(i), 0);
}

TEST(CastFp8, OffSixteenBytesIsTheSame) {
  const Matrix m = random_matrix(48, 80, 3);
  for (const bool transposes : {false, true}) {
    const Cast here(m, Fp8Format::kE5m2, transposes), off(m, Fp8Format::kE5m2, transposes, 3);
    EXPECT_EQ(here.scale, off.scale);
    for (std::int64_t i = 0; i < 48 * 80; ++i) ASSERT_EQ(here.code(i), off.code(i)) << i;
  }
}

// Sums of what the codes stand for, which other rows do not touch.
TEST(RowSumsFp8, AreOfRoundedNumbers) {
  const Matrix m = random_matrix(32, 4112, 4);
  const std::vector<double> rounded = rounded_by_the_cpu(m, Fp8Format::kE5m2);
  const Cast cast(m, Fp8Format::kE5m2, false);
  std::vector<float> sums(32, 0.5F);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(cast.codes.data());
  for (const bool adds : {false, true}) {
    row_sums_fp8(nullptr, sums.data(), codes, &cast.scale, m.rows, m.columns, Fp8Format::kE5m2,
                 adds);
    for (std::size_t i = 0; i < 32; ++i) {
      double expected = 0, magnitude = 0;
      for (std::size_t j = 0; j < 4112; ++j) {
        expected += rounded[i * 4112 + j];
        magnitude += std::abs(rounded[i * 4112 + j]);
      }
      ASSERT_NEAR(sums[i], (adds ? 2 : 1) * expected, 1e-6 * magnitude) << "row " << i;
    }
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
