// Kernels on 16-bit elements against the same kernels on float: from widened operands they give the
// float results, rounded once. Sums may differ in their last bits: the loop over another type is
// vectorised in another order.
#include <gtest/gtest.h>

#include <vector>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/attention_unfused.h"
#include "exec/cpu/kernels/cross_entropy.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/embedding.h"
#include "exec/cpu/kernels/norm.h"
#include "exec/cpu/kernels/rope.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
class HalfKernels : public testing::Test {};
using Types = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(HalfKernels, Types);

// The same values as T and as float.
template <typename T>
struct Pair {
  std::vector<T> half;
  std::vector<float> wide;
  explicit Pair(std::int64_t n, unsigned seed = 0, double size = 2.0)
      : half(random_values<T>(n, seed, size)), wide(converted<float>(half)) {}

  // Half a unit in the last place away, and what two orders of a sum may differ by.
  void expect_rounded() const {
    constexpr double kSumError = 5e-6;
    for (std::size_t i = 0; i < half.size(); ++i) {
      const double expected = static_cast<double>(wide[i]);
      ASSERT_NEAR(static_cast<double>(half[i]), expected,
                  (0.5 * kEpsilon<T> + kSumError) * std::abs(expected) + kSumError)
          << "element " << i;
    }
  }
};

TYPED_TEST(HalfKernels, ElementwiseKernelsRoundOnce) {
  using T = TypeParam;
  using P = Pair<T>;
  const std::int64_t n = 8200;
  const P x(n, 1, 8.0), dy(n, 2), bias(82, 3);
  P y(n), dx(n), sum(n), gated(n / 2), swiglu(n), turned(n, 4);
  gelu_forward(y.half.data(), x.half.data(), n);
  gelu_forward(y.wide.data(), x.wide.data(), n);
  gelu_backward(dx.half.data(), dy.half.data(), x.half.data(), n);
  gelu_backward(dx.wide.data(), dy.wide.data(), x.wide.data(), n);
  bias_residual_add(sum.half.data(), x.half.data(), dy.half.data(), bias.half.data(), 100, 82);
  bias_residual_add(sum.wide.data(), x.wide.data(), dy.wide.data(), bias.wide.data(), 100, 82);
  swiglu_forward({100, 41}, gated.half.data(), x.half.data());
  swiglu_forward({100, 41}, gated.wide.data(), x.wide.data());
  swiglu_backward({100, 41}, swiglu.half.data(), dy.half.data(), x.half.data());
  swiglu_backward({100, 41}, swiglu.wide.data(), dy.wide.data(), x.wide.data());
  rope({2, 41, 10, 10, 7}, turned.half.data(), 100.0, 1);
  rope({2, 41, 10, 10, 7}, turned.wide.data(), 100.0, 1);
  for (const P* result : {&y, &dx, &sum, &gated, &swiglu, &turned}) result->expect_rounded();
}

TYPED_TEST(HalfKernels, NormsRoundOnceAndKeepFloatStatistics) {
  using T = TypeParam;
  using P = Pair<T>;
  const NormShape s{11, 131};
  const P x(11 * 131, 1), dy(11 * 131, 2), gain(131, 3), bias(131, 4);
  P y(11 * 131), dx(11 * 131), dgain(131), dbias(131), rms(11 * 131);
  std::vector<float> mean(11), rstd(11), wide_mean(11), wide_rstd(11), main_gain(131),
      main_bias(131);
  layernorm_forward<T>(s, {y.half.data(), mean.data(), rstd.data(), x.half.data(), gain.half.data(),
                           bias.half.data()});
  layernorm_forward<float>(s, {y.wide.data(), wide_mean.data(), wide_rstd.data(), x.wide.data(),
                               gain.wide.data(), bias.wide.data()});
  expect_near(mean, converted<double>(wide_mean), 8);
  expect_near(rstd, converted<double>(wide_rstd), 8);
  layernorm_backward<T, T>(
      s, {dx.half.data(), dgain.half.data(), dbias.half.data(), dy.half.data(), x.half.data(),
          mean.data(), rstd.data(), gain.half.data(), false, false});
  layernorm_backward<float, float>(
      s, {dx.wide.data(), dgain.wide.data(), dbias.wide.data(), dy.wide.data(), x.wide.data(),
          mean.data(), rstd.data(), gain.wide.data(), false, false});
  for (const P* result : {&y, &dx, &dgain, &dbias}) result->expect_rounded();
  layernorm_backward<T, float>(
      s, {dx.half.data(), main_gain.data(), main_bias.data(), dy.half.data(), x.half.data(),
          mean.data(), rstd.data(), gain.half.data(), false, false});
  expect_near(main_gain, converted<double>(dgain.wide), 100);
  expect_near(main_bias, converted<double>(dbias.wide), 100);
  rmsnorm_forward<T>(
      s, {rms.half.data(), nullptr, rstd.data(), x.half.data(), gain.half.data(), nullptr});
  rmsnorm_forward<float>(
      s, {rms.wide.data(), nullptr, wide_rstd.data(), x.wide.data(), gain.wide.data(), nullptr});
  rms.expect_rounded();
  rmsnorm_backward<T, float>(
      s, {dx.half.data(), main_gain.data(), nullptr, dy.half.data(), x.half.data(), nullptr,
          rstd.data(), gain.half.data(), false, false});
  rmsnorm_backward<float, float>(
      s, {dx.wide.data(), dgain.wide.data(), nullptr, dy.wide.data(), x.wide.data(), nullptr,
          rstd.data(), gain.wide.data(), false, false});
  dx.expect_rounded();
  expect_near(main_gain, converted<double>(dgain.wide), 100);
}

TYPED_TEST(HalfKernels, AttentionRoundsOnce) {
  using T = TypeParam;
  using P = Pair<T>;
  const AttentionShape s{2, 133, 4, 2, 24};
  const P qkv(2 * 133 * 8 * 24, 1), dout(2 * 133 * 4 * 24, 2);
  P out(2 * 133 * 4 * 24), dqkv(2 * 133 * 8 * 24);
  std::vector<float> lse(2 * 4 * 133), wide_lse(lse.size());
  Workspace scratch(Bytes{8 << 20});
  attention_forward<T>(s, {out.half.data(), lse.data(), qkv.half.data()}, scratch.span());
  attention_forward<float>(s, {out.wide.data(), wide_lse.data(), qkv.wide.data()}, scratch.span());
  expect_near(lse, converted<double>(wide_lse), 8);
  out.expect_rounded();
  // Backward reads out: give both the rounded one.
  out.wide = converted<float>(out.half);
  attention_backward<T>(
      s, {dqkv.half.data(), dout.half.data(), out.half.data(), lse.data(), qkv.half.data()},
      scratch.span());
  attention_backward<float>(
      s, {dqkv.wide.data(), dout.wide.data(), out.wide.data(), lse.data(), qkv.wide.data()},
      scratch.span());
  dqkv.expect_rounded();
}

TYPED_TEST(HalfKernels, SoftmaxAndLossRoundOnce) {
  using T = TypeParam;
  using P = Pair<T>;
  const SquareRows s{2, 70};
  P scores(2 * 70 * 70, 1, 4.0), slope(2 * 70 * 70, 2);
  softmax_forward<T>(s, scores.half.data());
  softmax_forward<float>(s, scores.wide.data());
  scores.expect_rounded();
  scores.wide = converted<float>(scores.half);
  softmax_backward<T>(s, slope.half.data(), scores.half.data());
  softmax_backward<float>(s, slope.wide.data(), scores.wide.data());
  slope.expect_rounded();

  P logits(7 * 104, 3, 9.0);
  const std::vector<std::int32_t> targets{0, 99, kIgnoredTarget, 5, 6, 7, 8};
  double loss = 0, wide_loss = 0;
  Workspace scratch(cross_entropy_scratch_bytes({7, 100, 104}));
  cross_entropy<T>({7, 100, 104}, {logits.half.data(), targets.data(), 0.5, &loss}, scratch.span());
  cross_entropy<float>({7, 100, 104}, {logits.wide.data(), targets.data(), 0.5, &wide_loss},
                       scratch.span());
  logits.expect_rounded();
  EXPECT_NEAR(loss, wide_loss, 1e-5);
}

// A token that occurs often: what each occurrence adds may be less than half a unit of the sum.
TYPED_TEST(HalfKernels, EmbeddingRoundsTheSumOfATokenOnce) {
  using T = TypeParam;
  using P = Pair<T>;
  const EmbeddingShape s{2, 9, 70, 5};
  const std::vector<std::int32_t> tokens{0, 1, 2, 3, 4, 4, 3, 2, 1, 1, 1, 1, 0, 0, 3, 2, 2, 2};
  const P wte(5 * 70, 1), wpe(9 * 70, 2), dx(18 * 70, 3);
  P x(18 * 70), dwte(5 * 70), dwpe(9 * 70);
  Workspace scratch(embedding_scratch_bytes(s));
  embedding_forward<T>(s, {x.half.data(), tokens.data(), wte.half.data(), wpe.half.data()});
  embedding_forward<float>(s, {x.wide.data(), tokens.data(), wte.wide.data(), wpe.wide.data()});
  x.expect_rounded();
  embedding_backward<T, float>(
      s, {dwte.wide.data(), dwpe.wide.data(), dx.half.data(), tokens.data(), false, false},
      scratch.span());
  embedding_backward<T, T>(
      s, {dwte.half.data(), dwpe.half.data(), dx.half.data(), tokens.data(), false, false},
      scratch.span());
  dwpe.expect_rounded();
  dwte.expect_rounded();
  constexpr std::int64_t kTimes = 500;
  const std::vector<std::int32_t> same(kTimes, 0);
  const std::vector<T> ones(kTimes, static_cast<T>(1.0));
  std::vector<T> sum(1), position(kTimes);
  const EmbeddingShape often{1, kTimes, 1, 1};
  Workspace places(embedding_scratch_bytes(often));
  embedding_backward<T, T>(
      often, {sum.data(), position.data(), ones.data(), same.data(), false, false}, places.span());
  EXPECT_EQ(static_cast<double>(sum[0]), static_cast<double>(static_cast<T>(500.0)));
}

TYPED_TEST(HalfKernels, CastAndAccumulateBetweenTypesRoundOnce) {
  using T = TypeParam;
  const std::int64_t n = 8200;
  const auto wide = random_values<float>(n, 1);
  auto half = buffer<T>(n), sum = random_values<T>(n, 2);
  cast(half.data(), wide.data(), n);
  expect_same(half, converted<T>(wide));
  auto main = wide;
  accumulate(main.data(), half.data(), n);
  const auto before = sum;
  accumulate(sum.data(), half.data(), n);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(main[i], wide[i] + static_cast<float>(half[i]));
    ASSERT_EQ(static_cast<float>(sum[i]),
              static_cast<float>(T(static_cast<float>(before[i]) + static_cast<float>(half[i]))));
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
