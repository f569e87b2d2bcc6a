// CPU kernels against plain formulas in double; flags, padding, pieces; and the promise that the
// thread count changes no bit. Attention, loss and optimizer have files of their own.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <vector>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/attention_unfused.h"
#include "exec/cpu/kernels/columns.h"
#include "exec/cpu/kernels/cross_entropy.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/embedding.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/norm.h"
#include "exec/cpu/kernels/optimizer.h"
#include "exec/cpu/kernels/rope.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
class KernelTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelTest, Types);

// ---- exp ----

TYPED_TEST(KernelTest, FastExpIsWithinTwoUnitsOfExp) {
  using T = TypeParam;
  for (double x = -80; x < 80; x += 0.0137) {
    const auto argument = static_cast<T>(x);
    const double expected = std::exp(double{argument});
    const double error = std::abs(double{fast_exp(argument)} - expected);
    ASSERT_LE(error, 2 * std::numeric_limits<T>::epsilon() * expected) << x;
  }
}

TYPED_TEST(KernelTest, FastExpKeepsTheEnds) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  EXPECT_EQ(fast_exp(T{0}), T{1});
  EXPECT_EQ(fast_exp(-infinity), T{0});
  EXPECT_EQ(fast_exp(T{-1000}), T{0});
  EXPECT_EQ(fast_exp(infinity), infinity);
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<T>::quiet_NaN())));
}

// ---- embedding, layernorm, elementwise ----

TYPED_TEST(KernelTest, EmbeddingAddsTokenAndPositionRows) {
  using T = TypeParam;
  const EmbeddingShape s{3, 5, 7, 4};
  const auto wte = random_values<T>(s.rows * s.hidden, 1);
  const auto wpe = random_values<T>(s.sequence * s.hidden, 2);
  std::vector<std::int32_t> tokens(15);
  std::vector<double> expected;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    tokens[t] = static_cast<std::int32_t>(t * t % 4);
    for (std::size_t j = 0; j < 7; ++j) {
      const auto token = static_cast<std::size_t>(tokens[t]);
      expected.push_back(double{wte[token * 7 + j]} + double{wpe[t % 5 * 7 + j]});
    }
  }
  auto x = buffer<T>(3 * 5 * 7);
  embedding_forward<T>(s, {x.data(), tokens.data(), wte.data(), wpe.data()});
  expect_near(x, expected, 1);
}

TYPED_TEST(KernelTest, EmbeddingBackwardZeroesRowsOfAbsentTokensUnlessItAdds) {
  using T = TypeParam;
  const EmbeddingShape s{1, 2, 3, 4};
  const std::vector<std::int32_t> tokens{2, 2};
  const std::vector<T> dx{1, 2, 3, 10, 20, 30};
  auto dwte = buffer<T>(12), dwpe = buffer<T>(6);
  Workspace scratch(embedding_scratch_bytes(s));
  embedding_backward<T>(s, {dwte.data(), dwpe.data(), dx.data(), tokens.data(), false, false},
                        scratch.span());
  EXPECT_EQ(dwte, (std::vector<T>{0, 0, 0, 0, 0, 0, 11, 22, 33, 0, 0, 0}));
  EXPECT_EQ(dwpe, dx);
  embedding_backward<T>(s, {dwte.data(), dwpe.data(), dx.data(), tokens.data(), true, false},
                        scratch.span());
  EXPECT_EQ(dwte, (std::vector<T>{0, 0, 0, 0, 0, 0, 22, 44, 66, 0, 0, 0}));
  EXPECT_EQ(dwpe, dx);
}

// x = 4 wte[token] + wpe[position].
TYPED_TEST(KernelTest, ScaledEmbeddingsScaleRowsAndTheirGradients) {
  using T = TypeParam;
  const EmbeddingShape s{.batch = 1, .sequence = 2, .hidden = 1, .rows = 2, .scale = 4};
  const std::vector<std::int32_t> tokens{1, 1};
  const std::vector<T> wte{3, 5}, wpe{1, 2}, dx{10, 20};
  auto x = buffer<T>(2), dwte = buffer<T>(2), dwpe = buffer<T>(2);
  embedding_forward<T>(s, {x.data(), tokens.data(), wte.data(), wpe.data()});
  EXPECT_EQ(x, (std::vector<T>{21, 22}));
  Workspace scratch(embedding_scratch_bytes(s));
  embedding_backward<T>(s, {dwte.data(), dwpe.data(), dx.data(), tokens.data(), false, false},
                        scratch.span());
  EXPECT_EQ(dwte, (std::vector<T>{0, 120}));
  EXPECT_EQ(dwpe, dx);
}

TYPED_TEST(KernelTest, LayernormMatchesItsDefinition) {
  using T = TypeParam;
  const NormShape s{9, 131};
  const auto x = random_values<T>(s.tokens * s.hidden, 1, 3.0);
  const auto gain = random_values<T>(s.hidden, 2), bias = random_values<T>(s.hidden, 3);
  auto y = buffer<T>(s.tokens * s.hidden), mean = buffer<T>(s.tokens), rstd = buffer<T>(s.tokens);
  layernorm_forward<T>(s, {y.data(), mean.data(), rstd.data(), x.data(), gain.data(), bias.data()});
  std::vector<double> expected;
  for (std::size_t t = 0; t < 9; ++t) {
    double sum = 0, squares = 0;
    for (std::size_t j = 0; j < 131; ++j) sum += double{x[t * 131 + j]};
    for (std::size_t j = 0; j < 131; ++j)
      squares += std::pow(double{x[t * 131 + j]} - sum / 131, 2);
    const double scale = 1 / std::sqrt(squares / 131 + 1e-5);
    for (std::size_t j = 0; j < 131; ++j) {
      expected.push_back((double{x[t * 131 + j]} - sum / 131) * scale * double{gain[j]} +
                         double{bias[j]});
    }
  }
  expect_near(y, expected, 20);
}

TYPED_TEST(KernelTest, GeluMatchesTheTanhForm) {
  using T = TypeParam;
  const auto x = random_values<T>(1001, 5, 12.0);
  auto y = buffer<T>(1001);
  gelu_forward(y.data(), x.data(), 1001);
  std::vector<double> expected;
  for (const double v : x) {
    const double u = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
    expected.push_back(0.5 * v * (1 + std::tanh(u)));
  }
  expect_near(y, expected, 8);
}

TYPED_TEST(KernelTest, ResidualAccumulateAndFillTouchEveryElement) {
  using T = TypeParam;
  const std::int64_t n = 3 * kElementBlock + 5;
  const auto x = random_values<T>(n, 1), y = random_values<T>(n, 2);
  auto sum = buffer<T>(n), in_place = y;
  residual_add(sum.data(), x.data(), y.data(), n);
  accumulate(in_place.data(), x.data(), n);
  EXPECT_EQ(sum, in_place);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sum[i], x[i] + y[i]);
  fill_zero(sum.data(), n);
  EXPECT_EQ(sum, buffer<T>(n, 0.0));
}

TYPED_TEST(KernelTest, RmsnormMatchesItsDefinition) {
  using T = TypeParam;
  const NormShape s{9, 131};
  const auto x = random_values<T>(s.tokens * s.hidden, 1, 3.0), gain = random_values<T>(131, 2);
  auto y = buffer<T>(s.tokens * s.hidden), rstd = buffer<T>(s.tokens);
  rmsnorm_forward<T>(s, {y.data(), nullptr, rstd.data(), x.data(), gain.data(), nullptr});
  std::vector<double> expected, expected_rstd;
  for (std::size_t t = 0; t < 9; ++t) {
    double squares = 0;
    for (std::size_t j = 0; j < 131; ++j) squares += std::pow(double{x[t * 131 + j]}, 2);
    expected_rstd.push_back(1 / std::sqrt(squares / 131 + 1e-5));
    for (std::size_t j = 0; j < 131; ++j)
      expected.push_back(double{x[t * 131 + j]} * expected_rstd[t] * double{gain[j]});
  }
  expect_near(y, expected, 8);
  expect_near(rstd, expected_rstd, 8);
}

TYPED_TEST(KernelTest, AGateHasALimitAndItsFactorAnOffset) {
  using T = TypeParam;
  const SwigluShape s{1, 4, ActivationFunction::kQuickGelu, 7, 1};
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> x{9, -9, 1, nan, 2, 8, -8, 1};
  auto y = buffer<T>(4);
  swiglu_forward<T>(s, y.data(), x.data());
  const auto quick = [](double z) { return z / (1 + std::exp(-1.702 * z)); };
  EXPECT_NEAR(y[0], quick(7) * 3, 32 * kEpsilon<T>);
  EXPECT_NEAR(y[1], quick(-9) * 8, 32 * kEpsilon<T>);
  EXPECT_NEAR(y[2], quick(1) * -6, 32 * kEpsilon<T>);
  EXPECT_TRUE(std::isnan(y[3]));
  const std::vector<T> dy{1, 1, 1, 1};
  auto dx = buffer<T>(8);
  swiglu_backward<T>(s, dx.data(), dy.data(), x.data());
  EXPECT_EQ(dx[0], 0) << "9 is beyond the limit";
  EXPECT_NEAR(dx[4], quick(7), 32 * kEpsilon<T>);
  EXPECT_EQ(dx[5], 0) << "8, too";
  EXPECT_EQ(dx[6], 0) << "and -8";
}

TYPED_TEST(KernelTest, SwigluMatchesItsDefinition) {
  using T = TypeParam;
  const SwigluShape s{7, 33};
  const auto x = random_values<T>(s.tokens * 2 * s.width, 5, 12.0);
  auto y = buffer<T>(s.tokens * s.width);
  swiglu_forward<T>(s, y.data(), x.data());
  std::vector<double> expected;
  for (std::size_t t = 0; t < 7; ++t) {
    for (std::size_t j = 0; j < 33; ++j) {
      const double gate = double{x[t * 66 + j]};
      expected.push_back(gate / (1 + std::exp(-gate)) * double{x[t * 66 + 33 + j]});
    }
  }
  expect_near(y, expected, 8);
}

// Two rows of segments 4, 2 and 2 wide, in two pieces.
TYPED_TEST(KernelTest, APieceOfColumnsHasItsPartOfEverySegment) {
  using T = TypeParam;
  const ColumnPieces s{2, 2, {2, 1, 1}};
  std::vector<T> x, back(16);
  for (int i = 0; i < 16; ++i) x.push_back(static_cast<T>(i));
  auto y = buffer<T>(16);
  split_columns<T>(s, y.data(), x.data());
  expect_near(y, {0, 1, 4, 6, 8, 9, 12, 14, 2, 3, 5, 7, 10, 11, 13, 15}, 0);
  join_columns<T>(s, back.data(), y.data());
  EXPECT_EQ(back, x);
}

TYPED_TEST(KernelTest, BiasResidualAddsBothAndColumnSumsAddRows) {
  using T = TypeParam;
  const std::int64_t rows = 301, columns = 67;
  const auto x = random_values<T>(rows * columns, 1), y = random_values<T>(rows * columns, 2);
  const auto bias = random_values<T>(columns, 3);
  auto out = buffer<T>(rows * columns), sums = buffer<T>(columns, 2.0);
  bias_residual_add(out.data(), x.data(), y.data(), bias.data(), rows, columns);
  column_sums(sums.data(), x.data(), rows, columns, true);
  std::vector<double> expected, expected_sums(67, 2.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected.push_back(double{x[i]} + double{y[i]} + double{bias[i % 67]});
    expected_sums[i % 67] += double{x[i]};
  }
  expect_near(out, expected, 2);
  expect_near(sums, expected_sums, 40);
}

// Two pieces of a vocabulary of 8, positions on the first: their sum is the whole lookup, and each
// gets the gradient of its own rows.
TYPED_TEST(KernelTest, PiecesOfAnEmbeddingSumToTheWhole) {
  using T = TypeParam;
  const EmbeddingShape whole{2, 5, 7, 8, 0, 6}, low{2, 5, 7, 4, 0, 6}, high{2, 5, 7, 4, 4, 6};
  const std::vector<std::int32_t> tokens{0, 3, 4, 7, 4, -9, 5, 5, 1, 3, 2, -9};
  const auto wte = random_values<T>(56, 1), wpe = random_values<T>(35, 2);
  const auto dx = random_values<T>(70, 3);
  auto x = buffer<T>(70), x_low = x, x_high = x;
  embedding_forward<T>(whole, {x.data(), tokens.data(), wte.data(), wpe.data()});
  embedding_forward<T>(low, {x_low.data(), tokens.data(), wte.data(), wpe.data()});
  embedding_forward<T>(high, {x_high.data(), tokens.data(), wte.data() + 28, nullptr});
  accumulate(x_low.data(), x_high.data(), 70);
  EXPECT_EQ(x_low, x);
  auto dwte = buffer<T>(56), pieces = dwte, dwpe = buffer<T>(35), own = dwpe;
  Workspace scratch(embedding_scratch_bytes(whole));
  embedding_backward<T>(whole, {dwte.data(), dwpe.data(), dx.data(), tokens.data(), false, false},
                        scratch.span());
  embedding_backward<T>(low, {pieces.data(), own.data(), dx.data(), tokens.data(), false, false},
                        scratch.span());
  embedding_backward<T>(high, {pieces.data() + 28, nullptr, dx.data(), tokens.data(), false, false},
                        scratch.span());
  EXPECT_EQ(pieces, dwte);
  EXPECT_EQ(own, dwpe);
}

// ---- thread count ----

template <typename T>
Elements no_param() {
  return {nullptr, dtype_of<T>()};
}

// All kernels with a reduction or a parallel loop, on sizes that give every thread work.
template <typename T>
std::vector<T> everything_with(int threads) {
  omp_set_num_threads(threads);
  std::vector<T> all;
  const auto keep = [&](const std::vector<T>& v) { all.insert(all.end(), v.begin(), v.end()); };
  const std::int64_t batch = 2, sequence = 70, heads = 4, d = 40, h = heads * d;
  const std::int64_t tokens = batch * sequence, vocab = 301, padded = 304;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 301);
  const auto x = random_values<T>(tokens * h, 1), dy = random_values<T>(tokens * h, 2);
  const auto wte = random_values<T>(vocab * h, 3), gain = random_values<T>(h, 4);
  Workspace scratch(Bytes{1 << 23});
  const Scratch space = scratch.span();

  auto y = buffer<T>(tokens * h), dwte = buffer<T>(vocab * h), dwpe = buffer<T>(sequence * h);
  embedding_forward<T>({batch, sequence, h, vocab}, {y.data(), ids.data(), wte.data(), wte.data()});
  embedding_backward<T>({batch, sequence, h, vocab},
                        {dwte.data(), dwpe.data(), dy.data(), ids.data(), false, false}, space);
  keep(y), keep(dwte), keep(dwpe);

  auto mean = buffer<T>(tokens), rstd = buffer<T>(tokens), dgain = buffer<T>(h);
  auto dbias = buffer<T>(h), dx = buffer<T>(tokens * h);
  layernorm_forward<T>({tokens, h},
                       {y.data(), mean.data(), rstd.data(), x.data(), gain.data(), gain.data()});
  layernorm_backward<T>({tokens, h}, {dx.data(), dgain.data(), dbias.data(), dy.data(), x.data(),
                                      mean.data(), rstd.data(), gain.data(), false, false});
  keep(y), keep(dx), keep(dgain), keep(dbias);

  rmsnorm_forward<T>({tokens, h}, {y.data(), nullptr, rstd.data(), x.data(), gain.data(), nullptr});
  rmsnorm_backward<T>({tokens, h}, {dx.data(), dgain.data(), nullptr, dy.data(), x.data(), nullptr,
                                    rstd.data(), gain.data(), false, false});
  keep(y), keep(dx), keep(dgain);
  swiglu_forward<T>({tokens, h / 2}, y.data(), x.data());
  swiglu_backward<T>({tokens, h / 2}, dx.data(), dy.data(), x.data());
  bias_residual_add(dx.data(), dx.data(), x.data(), gain.data(), tokens, h);
  column_sums(dbias.data(), x.data(), tokens, h, false);
  rope<T>({batch, sequence, heads, d, heads}, dx.data(), 100.0, 1);
  keep(y), keep(dx), keep(dbias);

  const auto qkv = random_values<T>(tokens * 3 * h, 5);
  auto lse = buffer<T>(tokens * heads), dqkv = buffer<T>(tokens * 3 * h);
  const AttentionShape attention{batch, sequence, heads, heads, d};
  attention_forward<T>(attention, {y.data(), lse.data(), qkv.data()}, space);
  attention_backward<T>(attention, {dqkv.data(), dy.data(), y.data(), lse.data(), qkv.data()},
                        space);
  keep(y), keep(dqkv);

  GemmCache cache;
  auto squares_of_scores = buffer<T>(batch * heads * sequence * sequence);
  cache.prepare<T>(attention_scores_gemm(attention));
  attention_scores<T>(cache, attention, squares_of_scores.data(), qkv.data(), space);
  softmax_forward<T>({batch * heads, sequence}, squares_of_scores.data());
  keep(squares_of_scores);
  softmax_backward<T>({batch * heads, sequence}, squares_of_scores.data(),
                      squares_of_scores.data());
  keep(squares_of_scores);
  const GemmShape weights{.op = GemmOp::kTN, .m = h, .n = h, .k = tokens};
  cache.prepare<T>(weights);
  auto dw = buffer<T>(h * h);
  cache.run<T>(weights, {x.data(), dy.data(), dw.data()}, space);
  keep(dw);

  auto logits = random_values<T>(tokens * padded, 6, 4.0);
  double loss = 0, squares = 0;
  cross_entropy<T>({tokens, vocab, padded}, {logits.data(), ids.data(), 0.1, &loss}, space);
  keep(logits), all.push_back(static_cast<T>(loss));

  const std::int64_t n = 5 * kElementBlock + 3;
  auto p = random_values<T>(n, 7), g = random_values<T>(n, 8), slope = buffer<T>(n);
  gelu_backward(slope.data(), g.data(), p.data(), n);
  gelu_forward(g.data(), g.data(), n);
  sum_squares(&squares, g.data(), n);
  auto m = buffer<T>(n, 0.0), v = buffer<T>(n, 0.0);
  adamw(
      {1e-2, 0.9, 0.95, 1e-8, 0.1, 1 - 0.9, 1 - 0.95, 0.5, false},
      {elements_of(p), elements_of(m), elements_of(v), elements_of(g), no_param<T>(), n, 0, n / 2});
  keep(slope), keep(g), keep(p), keep(m), keep(v), all.push_back(static_cast<T>(squares));
  return all;
}

TYPED_TEST(KernelTest, SumsDoNotDependOnTheAlignmentOfTheirOperands) {
  using T = TypeParam;
  const std::int64_t n = 1003;
  const auto x = random_values<T>(n, 1), gain = random_values<T>(n, 2);
  std::vector<std::vector<T>> results;
  for (const std::size_t shift : {0u, 1u, 3u}) {
    std::vector<T> moved(shift), y(x.size()), statistics(2);
    moved.insert(moved.end(), x.begin(), x.end());
    layernorm_forward<T>({1, n}, {y.data(), statistics.data(), statistics.data() + 1,
                                  moved.data() + shift, gain.data(), gain.data()});
    double squares = 0;
    sum_squares(&squares, moved.data() + shift, n);
    y.push_back(static_cast<T>(squares));
    results.push_back(y);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TYPED_TEST(KernelTest, EveryKernelIsBitwiseTheSameForAnyThreadCount) {
  const int threads_before = omp_get_max_threads();
  const auto one = everything_with<TypeParam>(1);
  EXPECT_EQ(everything_with<TypeParam>(2), one);
  EXPECT_EQ(everything_with<TypeParam>(3), one);
  omp_set_num_threads(threads_before);
}

}  // namespace
}  // namespace zplan::exec::cpu
