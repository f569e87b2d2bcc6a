// Matrix products against a plain triple loop in double, on both implementations.
#include "exec/cpu/kernels/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
struct Problem {
  GemmShape shape;  // leading dimensions filled in
  std::vector<T> a, b, c, bias;

  explicit Problem(const GemmShape& wanted) : shape(with_leading_dimensions(wanted)) {
    const bool tn = shape.op == GemmOp::kTN, nt = shape.op == GemmOp::kNT;
    a = random_values<T>((tn ? shape.k : shape.m) * shape.lda, 1);
    b = random_values<T>((nt ? shape.n : shape.k) * shape.ldb, 2);
    c = random_values<T>(shape.m * shape.ldc, 3);
    bias = random_values<T>(shape.n, 4);
  }

  GemmOperands<T> operands() { return {a.data(), b.data(), c.data(), bias.data()}; }

  T at_a(std::int64_t i, std::int64_t p) const {
    const auto at = shape.op == GemmOp::kTN ? p * shape.lda + i : i * shape.lda + p;
    return a[static_cast<std::size_t>(at)];
  }
  T at_b(std::int64_t p, std::int64_t j) const {
    const auto at = shape.op == GemmOp::kNT ? j * shape.ldb + p : p * shape.ldb + j;
    return b[static_cast<std::size_t>(at)];
  }

  double expected(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t p = 0; p < shape.k; ++p) sum += double{at_a(i, p)} * double{at_b(p, j)};
    if (shape.bias) sum += double{bias[static_cast<std::size_t>(j)]};
    if (shape.accumulate) sum += double{c[static_cast<std::size_t>(i * shape.ldc + j)]};
    return sum;
  }
};

template <typename T>
std::vector<T> run_blocked(Problem<T> problem, int threads = 1) {
  Workspace scratch(blocked_gemm_scratch_bytes<T>(problem.shape) * threads);
  blocked_gemm<T>(problem.shape, problem.operands(), scratch.span());
  return problem.c;
}

template <typename T>
std::vector<T> run_cached(Problem<T> problem) {
  GemmCache cache;
  cache.prepare<T>(problem.shape);
  Workspace scratch(cache.scratch_bytes<T>(problem.shape));
  cache.run<T>(problem.shape, problem.operands(), scratch.span());
  return problem.c;
}

// Every element right, and nothing written between the rows.
template <typename T>
void expect_right(const Problem<T>& problem, const std::vector<T>& result) {
  const GemmShape& s = problem.shape;
  const double tolerance = std::numeric_limits<T>::epsilon() * (4.0 + static_cast<double>(s.k));
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.ldc; ++j) {
      const auto at = static_cast<std::size_t>(i * s.ldc + j);
      if (j < s.n) {
        ASSERT_NEAR(double{result[at]}, problem.expected(i, j), tolerance) << i << ", " << j;
      } else {
        ASSERT_EQ(result[at], problem.c[at]) << "written outside: " << i << ", " << j;
      }
    }
  }
}

struct Size {
  std::int64_t m, n, k;
};

// One element, odd sizes around every tile edge, several row, column and depth blocks, and sums
// long enough to be sliced.
constexpr Size kSizes[] = {{1, 1, 1},    {3, 5, 7},      {6, 8, 16},     {13, 33, 9},
                           {49, 65, 31}, {64, 64, 64},   {100, 37, 257}, {7, 530, 300},
                           {97, 19, 1},  {12, 24, 2500}, {150, 520, 20}};

template <typename T>
class GemmTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

// Sanitizers, under which the products of these tests are slow, see every size with some flags.
constexpr std::size_t kOneOfShapes = testing_support::kSanitized ? 5 : 1;

template <typename T, typename Check>
void for_all_shapes(const Check& check) {
  testing_support::Thinned thinned(kOneOfShapes);
  for (const Size& size : kSizes) {
    for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
      for (int flags = 0; flags < 4; ++flags) {
        if (thinned.skips()) continue;
        GemmShape shape{op, size.m, size.n, size.k, (flags & 1) != 0, (flags & 2) != 0};
        SCOPED_TRACE(testing::Message() << "op " << static_cast<int>(op) << " flags " << flags
                                        << " size " << size.m << "x" << size.n << "x" << size.k);
        check(Problem<T>(shape));
      }
    }
  }
}

TYPED_TEST(GemmTest, CachedProductIsRightForEveryShapeAndFlag) {
  for_all_shapes<TypeParam>(
      [](const auto& problem) { expect_right(problem, run_cached(problem)); });
}

TYPED_TEST(GemmTest, BlockedProductIsRightForEveryShapeAndFlag) {
  for_all_shapes<TypeParam>(
      [](const auto& problem) { expect_right(problem, run_blocked(problem)); });
}

TYPED_TEST(GemmTest, LeadingDimensionsSkipTheGapsBetweenRows) {
  for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
    const GemmShape shape{op, 23, 17, 40, true, true, 51, 47, 29};
    const Problem<TypeParam> problem(shape);
    expect_right(problem, run_cached(problem));
    expect_right(problem, run_blocked(problem));
  }
}

TYPED_TEST(GemmTest, EmptySumLeavesBiasOrZeros) {
  for (const bool accumulate : {false, true}) {
    const Problem<TypeParam> problem(GemmShape{GemmOp::kNN, 5, 9, 0, accumulate, accumulate});
    expect_right(problem, run_cached(problem));
    expect_right(problem, run_blocked(problem));
  }
}

TYPED_TEST(GemmTest, ResultIsBitwiseTheSameForAnyThreadCount) {
  const int threads_before = omp_get_max_threads();
  for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
    for (const Size& size : {Size{130, 96, 520}, Size{64, 64, 4100}}) {
      const Problem<TypeParam> problem(GemmShape{op, size.m, size.n, size.k});
      omp_set_num_threads(1);
      const auto cached = run_cached(problem), blocked = run_blocked(problem);
      for (const int threads : {2, 3}) {
        omp_set_num_threads(threads);
        EXPECT_EQ(run_cached(problem), cached) << threads << " threads";
        EXPECT_EQ(run_blocked(problem, threads), blocked) << threads << " threads";
      }
    }
  }
  omp_set_num_threads(threads_before);
}

TYPED_TEST(GemmTest, CachesOfDifferentRanksRunAtTheSameTime) {
  const Problem<TypeParam> problem(GemmShape{GemmOp::kNT, 61, 93, 77});
  const auto expected = run_cached(problem);
  std::vector<std::vector<TypeParam>> results(3);
  std::vector<std::thread> ranks;
  for (auto& result : results) {
    ranks.emplace_back([&] {
      omp_set_num_threads(1);
      for (int round = 0; round < 20; ++round) result = run_cached(problem);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TYPED_TEST(GemmTest, SameShapeIsPreparedOnceAndRunsRepeatedly) {
  Problem<TypeParam> problem(GemmShape{GemmOp::kTN, 31, 18, 1500, true});
  GemmCache cache;
  cache.prepare<TypeParam>(problem.shape);
  cache.prepare<TypeParam>(problem.shape);
  Workspace scratch(cache.scratch_bytes<TypeParam>(problem.shape));
  for (int round = 0; round < 3; ++round) {
    const Problem<TypeParam> before = problem;
    cache.run<TypeParam>(problem.shape, problem.operands(), scratch.span());
    expect_right(before, problem.c);
  }
}

// ---- floats on tile registers, where the machine has them

class TileRegisters : public testing::Test {
 protected:
  void SetUp() override {
    if (!amx_multiplies({.m = 32, .n = 32, .k = 32})) GTEST_SKIP() << "no tile registers here";
  }
};

// In as many times the least scratch.
std::vector<float> run_amx(Problem<float> problem, int times = 1) {
  Workspace scratch(amx_gemm_scratch_bytes() * times);
  amx_gemm(problem.shape, problem.operands(), scratch.span());
  return problem.c;
}

// Root of the mean square of what a result is off.
double error_of(const Problem<float>& problem, const std::vector<float>& result) {
  double sum = 0;
  for (std::int64_t i = 0; i < problem.shape.m; ++i)
    for (std::int64_t j = 0; j < problem.shape.n; ++j) {
      const double off = double{result[static_cast<std::size_t>(i * problem.shape.ldc + j)]} -
                         problem.expected(i, j);
      sum += off * off;
    }
  return std::sqrt(sum / static_cast<double>(problem.shape.m * problem.shape.n));
}

TEST_F(TileRegisters, ProductIsRightForEveryShapeAndFlag) {
  for_all_shapes<float>([](const auto& problem) { expect_right(problem, run_amx(problem)); });
  for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
    const Problem<float> gaps(GemmShape{op, 23, 17, 40, true, true, 51, 47, 29});
    expect_right(gaps, run_amx(gaps));
    const Problem<float> tiles(GemmShape{op, 230, 1100, 300, true, true});
    expect_right(tiles, run_amx(tiles, 3));
  }
}

// The sum of each element as one chain of multiply-adds.
std::vector<float> run_chains(const Problem<float>& problem) {
  const GemmShape& s = problem.shape;
  std::vector<float> c = problem.c;
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < s.k; ++p)
        sum = std::fma(problem.at_a(i, p), problem.at_b(p, j), sum);
      c[static_cast<std::size_t>(i * s.ldc + j)] = sum;
    }
  return c;
}

// A term of an operand that is left out, or one of the six products, would be seen here.
TEST_F(TileRegisters, ErrorIsBelowThatOfMultiplyAdds) {
  for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
    for (const std::int64_t k : {32, 500, 4100}) {
      const Problem<float> problem(GemmShape{op, 64, 64, k});
      EXPECT_LT(error_of(problem, run_amx(problem)), 0.7 * error_of(problem, run_chains(problem)))
          << "op " << static_cast<int>(op) << " k " << k;
    }
  }
}

// More scratch makes other blocks, more threads other tiles.
TEST_F(TileRegisters, ResultIsBitwiseTheSameForAnyThreadCountAndScratch) {
  const int threads_before = omp_get_max_threads();
  for (const bool flag : {false, true}) {
    const Problem<float> problem(GemmShape{GemmOp::kNN, 300, 1100, 520, flag, flag});
    omp_set_num_threads(1);
    const auto one = run_amx(problem);
    EXPECT_EQ(run_amx(problem, 11), one);
    for (const int threads : {2, 3, 5}) {
      omp_set_num_threads(threads);
      for (const int times : {threads, 7 * threads + 1})
        EXPECT_EQ(run_amx(problem, times), one) << threads << " threads, scratch " << times;
    }
  }
  omp_set_num_threads(threads_before);
}

TEST_F(TileRegisters, WhatIsNotFiniteStaysSo) {
  for (const std::uint32_t bits : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xffffffffU}) {
    for (const bool of_b : {false, true}) {
      Problem<float> problem(GemmShape{GemmOp::kNN, 32, 32, 64});
      (of_b ? problem.b : problem.a)[of_b ? 5 : 5 * 64] = std::bit_cast<float>(bits);
      const auto c = run_amx(problem);
      for (std::size_t i = 0; i < 32; ++i)
        for (std::size_t j = 0; j < 32; ++j)
          EXPECT_EQ(std::isfinite(c[i * 32 + j]), (of_b ? j : i) != 5) << bits;
    }
  }
}

TEST_F(TileRegisters, LargeTimesSmallKeepsItsDigits) {
  Problem<float> problem(GemmShape{GemmOp::kNT, 32, 32, 32});
  for (float& a : problem.a) a *= 1e30F;
  for (float& b : problem.b) b *= 1e-30F;
  const auto c = run_amx(problem);
  for (std::int64_t i = 0; i < 32; ++i)
    for (std::int64_t j = 0; j < 32; ++j)
      ASSERT_NEAR(double{c[static_cast<std::size_t>(i * 32 + j)]}, problem.expected(i, j), 4e-6);
}

TEST_F(TileRegisters, AFloatOfAllBitsTimesOneIsItself) {
  for (const int exponent : {-103, -60, 0, 100}) {
    Problem<float> problem(GemmShape{GemmOp::kNN, 32, 32, 32});
    for (float& a : problem.a) a = 0;
    for (float& b : problem.b) b = 0;
    problem.a[0] = std::ldexp(1 + std::numeric_limits<float>::epsilon(), exponent);
    problem.b[0] = 1;
    EXPECT_EQ(run_amx(problem)[0], problem.a[0]) << exponent;
  }
}

// Of 16-bit operands: the sum of exact products in float, rounded once to the type of C.
template <typename T, typename C>
void expect_mixed_right(const GemmShape& shape) {
  const Problem<T> problem(shape);
  const GemmShape& s = problem.shape;
  auto c = random_values<C>(s.m * s.ldc, 3);
  const auto before = c;
  Workspace scratch(mixed_gemm_scratch_bytes());
  GemmCache cache;
  cache.prepare<T>(s);
  EXPECT_EQ(cache.scratch_bytes<T>(s), mixed_gemm_scratch_bytes());
  cache.run<T, C>(s, {problem.a.data(), problem.b.data(), c.data(), problem.bias.data()},
                  scratch.span());
  const double sum_error = std::numeric_limits<float>::epsilon() * (4.0 + static_cast<double>(s.k));
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.ldc; ++j) {
      const auto at = static_cast<std::size_t>(i * s.ldc + j);
      if (j >= s.n) {
        ASSERT_EQ(static_cast<float>(c[at]), static_cast<float>(before[at])) << "outside";
        continue;
      }
      double expected = problem.expected(i, j);
      if (s.accumulate)  // Problem's own C is of type T
        expected += static_cast<double>(before[at]) - static_cast<double>(problem.c[at]);
      const double rounding = 0.5 * kEpsilon<C> * std::abs(expected);
      ASSERT_NEAR(static_cast<double>(c[at]), expected, rounding + sum_error) << i << ", " << j;
    }
  }
}

TEST(MixedGemm, RoundsOnceForEveryShapeAndFlag) {
  testing_support::Thinned thinned(kOneOfShapes);
  for (const Size& size : {Size{1, 1, 1}, Size{13, 33, 9}, Size{97, 19, 1}, Size{100, 37, 257},
                           Size{7, 530, 300}, Size{200, 24, 700}}) {
    for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
      for (int flags = 0; flags < 4; ++flags) {
        if (thinned.skips()) continue;
        GemmShape shape{op, size.m, size.n, size.k, (flags & 1) != 0, (flags & 2) != 0};
        SCOPED_TRACE(testing::Message() << "op " << static_cast<int>(op) << " flags " << flags
                                        << " size " << size.m << "x" << size.n << "x" << size.k);
        expect_mixed_right<Bf16, Bf16>(shape);
        expect_mixed_right<Bf16, float>(shape);
        expect_mixed_right<Fp16, Fp16>(shape);
        expect_mixed_right<Fp16, float>(shape);
      }
    }
    for (const GemmOp op : {GemmOp::kNN, GemmOp::kNT, GemmOp::kTN}) {
      GemmShape gaps = with_leading_dimensions({op, size.m, size.n, size.k, true, true});
      gaps.lda += 3;
      gaps.ldb += 5;
      gaps.ldc += 7;
      expect_mixed_right<Bf16, float>(gaps);
    }
  }
}

TEST(MixedGemm, ResultIsBitwiseTheSameForAnyThreadCount) {
  const int threads_before = omp_get_max_threads();
  const Problem<Bf16> problem(GemmShape{GemmOp::kTN, 210, 600, 520});
  std::vector<std::vector<Bf16>> results;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    Problem<Bf16> own = problem;
    Workspace scratch(mixed_gemm_scratch_bytes() * 2);  // room for two threads
    mixed_gemm<Bf16, Bf16>(own.shape, own.operands(), scratch.span());
    results.push_back(own.c);
  }
  omp_set_num_threads(threads_before);
  expect_same(results[1], results[0]);
  expect_same(results[2], results[0]);
}

TYPED_TEST(GemmTest, ScratchIsBoundedForAnySize) {
  const GemmShape large{GemmOp::kNT, 4096, 50304, 12288};
  EXPECT_LE(blocked_gemm_scratch_bytes<TypeParam>(large).value, 1 << 20);
}

}  // namespace
}  // namespace zplan::exec::cpu
