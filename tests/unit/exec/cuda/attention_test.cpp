// Our own CUDA attention, run on the host, against the CPU kernels in float64 on the same values.
#include "tests/support/launch_on_host.h"

#include "exec/cuda/kernels/attention_kernels.cu"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/cpu/kernels/attention.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cuda {
namespace {

// Distance of neighbours in [1, 2).
template <typename T>
constexpr double kUnit = 0x1p-23;
template <>
constexpr double kUnit<__half> = 0x1p-10;
template <>
constexpr double kUnit<__nv_bfloat16> = 0x1p-7;

// Sums of up to 70 products in float; what is stored in 16 bits is rounded once, by half a unit,
// and float sums may tip it.
template <typename T>
constexpr double kUnits = 0.51;
template <>
constexpr double kUnits<float> = 60;

template <typename T>
void expect_close(const std::vector<T>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double size = std::max(1.0, std::exp2(std::ceil(std::log2(std::abs(expected[i])))));
    ASSERT_NEAR(static_cast<double>(static_cast<float>(actual[i])), expected[i],
                kUnits<T> * kUnit<T> * size)
        << "element " << i;
  }
}

template <typename T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

// Every element is poison that no kernel may leave.
template <typename T>
std::vector<T> unwritten(std::int64_t n) {
  return std::vector<T>(static_cast<std::size_t>(n), static_cast<T>(std::nanf("")));
}

std::int64_t out_size(const AttentionShape& s) {
  return s.batch * s.sequence * s.heads * s.value_dim;
}
std::int64_t qkv_size(const AttentionShape& s) { return s.batch * s.sequence * s.columns(); }
std::int64_t rows(const AttentionShape& s) { return s.batch * s.sequence * s.heads; }

template <typename T>
struct Results {
  std::vector<T> out, dqkv;
  std::vector<float> lse;
};

template <typename T>
Results<T> run(const AttentionShape& s, const std::vector<T>& qkv, const std::vector<T>& dout) {
  Results<T> r{unwritten<T>(out_size(s)), unwritten<T>(qkv_size(s)), unwritten<float>(rows(s))};
  std::vector<float> delta = unwritten<float>(rows(s));
  launch_attention_forward<T>(nullptr, s, {r.out.data(), r.lse.data(), qkv.data()});
  launch_attention_backward<T>(
      nullptr, s,
      {r.dqkv.data(), dout.data(), r.out.data(), r.lse.data(), qkv.data(), delta.data()});
  return r;
}

// The gradient is that of the stored out and lse, rounded as they are.
template <typename T>
void expect_definition(const AttentionShape& s, const std::vector<T>& qkv,
                       const std::vector<T>& dout, const Results<T>& r) {
  const cpu::AttentionShape shape{s.batch,    s.sequence, s.heads,
                                  s.kv_heads, s.head_dim, s.value_dim};
  const std::vector<double> wide_qkv = widened(qkv), wide_dout = widened(dout);
  auto out = unwritten<double>(out_size(s)), dqkv = unwritten<double>(qkv_size(s));
  auto lse = unwritten<double>(rows(s));
  cpu::Workspace forward(cpu::attention_forward_scratch_bytes<double>(shape, 1));
  cpu::attention_forward<double>(shape, {out.data(), lse.data(), wide_qkv.data()}, forward.span());
  expect_close(r.out, out);
  expect_close(r.lse, lse);
  out = widened(r.out);
  lse = widened(r.lse);
  cpu::Workspace backward(cpu::attention_backward_scratch_bytes<double>(shape, 1));
  cpu::attention_backward<double>(
      shape, {dqkv.data(), wide_dout.data(), out.data(), lse.data(), wide_qkv.data()},
      backward.span());
  expect_close(r.dqkv, dqkv);
}

template <typename T>
std::vector<T> values(std::int64_t n, unsigned seed, double size) {
  std::vector<T> result;
  for (const float value : cpu::random_values<float>(n, seed, size))
    result.push_back(static_cast<T>(value));
  return result;
}

template <typename T>
void expect_definition(const AttentionShape& s) {
  SCOPED_TRACE(testing::Message() << s.batch << " " << s.sequence << " " << s.heads << " "
                                  << s.kv_heads << " " << s.head_dim);
  const auto qkv = values<T>(qkv_size(s), 7, 2.0), dout = values<T>(out_size(s), 8, 1.0);
  expect_definition(s, qkv, dout, run<T>(s, qkv, dout));
}

template <typename T>
class CudaAttention : public testing::Test {};
using Types = testing::Types<float, __half, __nv_bfloat16>;
TYPED_TEST_SUITE(CudaAttention, Types);

// One element; tiles that are not full; shared heads; rows in 16-byte accesses and not; tiles of
// the size of every kernel; values of a size of their own.
TYPED_TEST(CudaAttention, IsItsDefinition) {
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1, 1},
                                  {2, 9, 3, 3, 5},
                                  {1, 40, 2, 1, 64},
                                  {1, 67, 2, 1, 33},
                                  {1, 35, 2, 1, 72},
                                  {1, 17, 2, 2, 200},
                                  {1, 18, 1, 1, 131},
                                  {2, 9, 4, 2, 5, 7},
                                  {1, 35, 2, 1, 72, 40},
                                  {1, 34, 2, 2, 24, 16}})
    expect_definition<TypeParam>(s);
}

TEST(CudaAttention, SurvivesScoresThatOverflowExp) {
  const AttentionShape s{1, 3, 1, 1, 1};
  const std::vector<float> qkv{1, 500, 1, 1, 900, 2, 1, 100, 3}, dout{1, 1, 1};
  const auto r = run<float>(s, qkv, dout);
  EXPECT_EQ(r.out, (std::vector<float>{1, 2, 2}));
  EXPECT_EQ(r.lse, (std::vector<float>{500, 900, 900}));
  for (const float gradient : r.dqkv) EXPECT_TRUE(std::isfinite(gradient));
}

}  // namespace
}  // namespace zplan::exec::cuda
