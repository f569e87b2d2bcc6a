// Each CPU kernel against a plain formula in double; flags, padding, ignored tokens, skipped steps;
// and the promise that the thread count changes no bit.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <vector>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/cross_entropy.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/embedding.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/layernorm.h"
#include "exec/cpu/kernels/linear.h"
#include "exec/cpu/kernels/optimizer.h"
#include "tests/unit/exec/kernel_test_support.h"

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
  const auto wte = random_values<T>(s.vocab * s.hidden, 1);
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
  embedding_backward<T>(s, {dwte.data(), dwpe.data(), dx.data(), tokens.data(), false, false});
  EXPECT_EQ(dwte, (std::vector<T>{0, 0, 0, 0, 0, 0, 11, 22, 33, 0, 0, 0}));
  EXPECT_EQ(dwpe, dx);
  embedding_backward<T>(s, {dwte.data(), dwpe.data(), dx.data(), tokens.data(), true, false});
  EXPECT_EQ(dwte, (std::vector<T>{0, 0, 0, 0, 0, 0, 22, 44, 66, 0, 0, 0}));
  EXPECT_EQ(dwpe, dx);
}

TYPED_TEST(KernelTest, LayernormMatchesItsDefinition) {
  using T = TypeParam;
  const LayernormShape s{9, 131};
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

// ---- linear and head ----

TYPED_TEST(KernelTest, HeadWritesZerosIntoThePaddingAndNeverReadsIt) {
  using T = TypeParam;
  const HeadShape s{5, 8, 11, 16};
  const auto x = random_values<T>(s.tokens * s.hidden, 1);
  const auto wte = random_values<T>(s.vocab * s.hidden, 2);
  auto logits = buffer<T>(s.tokens * s.padded_vocab, std::nan(""));
  GemmCache cache;
  Workspace scratch(Bytes{1 << 21});
  cache.prepare<T>(head_forward_gemm(s));
  cache.prepare<T>(head_dgrad_gemm(s));
  head_forward<T>(cache, s, {logits.data(), x.data(), wte.data()}, scratch.span());
  std::vector<double> expected(logits.size()), expected_dx(x.size());
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t v = 0; v < 11; ++v) {
      for (std::size_t j = 0; j < 8; ++j) {
        expected[t * 16 + v] += double{x[t * 8 + j]} * double{wte[v * 8 + j]};
      }
    }
    for (std::size_t v = 0; v < 11; ++v) {
      for (std::size_t j = 0; j < 8; ++j) {
        expected_dx[t * 8 + j] += expected[t * 16 + v] * double{wte[v * 8 + j]};
      }
    }
  }
  expect_near(logits, expected, 8);
  for (std::size_t t = 0; t < 5; ++t) logits[t * 16 + 11] = static_cast<T>(std::nan(""));
  auto dx = buffer<T>(s.tokens * s.hidden);
  head_dgrad<T>(cache, s, {dx.data(), logits.data(), wte.data()}, scratch.span());
  expect_near(dx, expected_dx, 40);
}

// ---- attention ----

// softmax(q k^T / sqrt(d)) v row by row.
template <typename T>
void plain_attention(const AttentionShape& s, const std::vector<T>& qkv, std::vector<double>* out,
                     std::vector<double>* lse) {
  const std::int64_t h = s.heads * s.head_dim;
  const auto at = [&](std::int64_t b, std::int64_t i, std::int64_t part, std::int64_t a,
                      std::int64_t p) {
    return double{qkv[static_cast<std::size_t>((b * s.sequence + i) * 3 * h + part * h +
                                               a * s.head_dim + p)]};
  };
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t a = 0; a < s.heads; ++a) {
      for (std::int64_t i = 0; i < s.sequence; ++i) {
        std::vector<double> weights;
        double total = 0;
        for (std::int64_t k = 0; k <= i; ++k) {
          double score = 0;
          for (std::int64_t p = 0; p < s.head_dim; ++p)
            score += at(b, i, 0, a, p) * at(b, k, 1, a, p);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_dim))));
          total += weights.back();
        }
        (*lse)[static_cast<std::size_t>((b * s.heads + a) * s.sequence + i)] = std::log(total);
        for (std::int64_t p = 0; p < s.head_dim; ++p) {
          double sum = 0;
          for (std::int64_t k = 0; k <= i; ++k) {
            sum += weights[static_cast<std::size_t>(k)] / total * at(b, k, 2, a, p);
          }
          (*out)[static_cast<std::size_t>((b * s.sequence + i) * h + a * s.head_dim + p)] = sum;
        }
      }
    }
  }
}

TYPED_TEST(KernelTest, AttentionMatchesPlainSoftmax) {
  using T = TypeParam;
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 1}, AttentionShape{2, 9, 3, 5}, AttentionShape{1, 64, 2, 16},
        AttentionShape{2, 65, 1, 33}, AttentionShape{1, 200, 2, 64}}) {
    const std::int64_t h = s.heads * s.head_dim, tokens = s.batch * s.sequence;
    const auto qkv = random_values<T>(tokens * 3 * h, 7, 2.0);
    auto out = buffer<T>(tokens * h), lse = buffer<T>(tokens * s.heads);
    Workspace scratch(attention_forward_scratch_bytes<T>(s, 1));
    attention_forward<T>(s, {out.data(), lse.data(), qkv.data()}, scratch.span());
    std::vector<double> expected_out(out.size()), expected_lse(lse.size());
    plain_attention(s, qkv, &expected_out, &expected_lse);
    expect_near(out, expected_out, 60);
    expect_near(lse, expected_lse, 20);
  }
}

TYPED_TEST(KernelTest, AttentionSurvivesScoresThatOverflowExp) {
  using T = TypeParam;
  const AttentionShape s{1, 3, 1, 1};
  const std::vector<T> qkv{1, 500, 1, 1, 900, 2, 1, 100, 3};  // scores reach 900
  auto out = buffer<T>(3), lse = buffer<T>(3);
  Workspace scratch(attention_forward_scratch_bytes<T>(s, 1));
  attention_forward<T>(s, {out.data(), lse.data(), qkv.data()}, scratch.span());
  EXPECT_EQ(out, (std::vector<T>{1, 2, 2}));
  EXPECT_EQ(lse, (std::vector<T>{500, 900, 900}));
}

// ---- cross-entropy ----

TYPED_TEST(KernelTest, CrossEntropyMatchesSoftmaxMinusOneHot) {
  using T = TypeParam;
  const CrossEntropyShape s{4, 37, 48};
  const auto logits = random_values<T>(s.tokens * s.padded_vocab, 3, 9.0);
  const std::vector<std::int32_t> targets{0, 36, kIgnoredTarget, 5};
  std::vector<double> expected(logits.size());
  double expected_loss = 1.5;
  for (std::size_t t = 0; t < 4; ++t) {
    if (targets[t] == kIgnoredTarget) continue;
    double total = 0;
    for (std::size_t j = 0; j < 37; ++j) total += std::exp(double{logits[t * 48 + j]});
    for (std::size_t j = 0; j < 37; ++j) {
      const double p = std::exp(double{logits[t * 48 + j]}) / total;
      const bool is_target = j == static_cast<std::size_t>(targets[t]);
      expected[t * 48 + j] = 0.5 * (p - (is_target ? 1 : 0));
      if (is_target) expected_loss -= std::log(p);
    }
  }
  auto gradient = logits;
  double loss = 1.5;  // the kernel adds to what is there
  Workspace scratch(cross_entropy_scratch_bytes(s));
  cross_entropy<T>(s, {gradient.data(), targets.data(), 0.5, &loss}, scratch.span());
  expect_near(gradient, expected, 8);
  EXPECT_NEAR(loss, expected_loss, 100 * std::numeric_limits<T>::epsilon());
}

TYPED_TEST(KernelTest, CrossEntropyIgnoresWhatIsInThePadding) {
  using T = TypeParam;
  const CrossEntropyShape s{1, 2, 4};
  std::vector<T> logits{0, 0, static_cast<T>(std::nan("")), static_cast<T>(1e30)};
  const std::vector<std::int32_t> targets{1};
  double loss = 0;
  Workspace scratch(cross_entropy_scratch_bytes(s));
  cross_entropy<T>(s, {logits.data(), targets.data(), 1.0, &loss}, scratch.span());
  EXPECT_EQ(logits, (std::vector<T>{T{0.5}, T{-0.5}, 0, 0}));
  EXPECT_NEAR(loss, std::log(2.0), 1e-7);
}

// ---- clip and AdamW ----

TYPED_TEST(KernelTest, SumSquaresAddsToTheSum) {
  using T = TypeParam;
  const auto x = random_values<T>(300 * kElementBlock + 17, 1);  // more blocks than partial sums
  double expected = 2.0, sum = 2.0;
  for (const double v : x) expected += v * v;
  sum_squares(&sum, x.data(), static_cast<std::int64_t>(x.size()));
  EXPECT_NEAR(sum, expected, 1e-12 * expected);
}

TEST(ClipCoefficient, IsMaxNormOverNormButNeverAboveOne) {
  EXPECT_DOUBLE_EQ(clip_coefficient(16.0, 1.0).coefficient, 1.0 / (4.0 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_coefficient(0.25, 1.0).coefficient, 1.0);
  EXPECT_DOUBLE_EQ(clip_coefficient(0.0, 1.0).coefficient, 1.0);
  EXPECT_DOUBLE_EQ(clip_coefficient(1e12, std::numeric_limits<double>::infinity()).coefficient,
                   1.0);
  EXPECT_DOUBLE_EQ(clip_coefficient(16.0, 1.0).norm, 4.0);
  EXPECT_FALSE(clip_coefficient(16.0, 1.0).skip);
}

TEST(ClipCoefficient, ANormThatIsNotFiniteSkipsTheStep) {
  for (const double sum : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(clip_coefficient(sum, 1.0).skip);
    EXPECT_EQ(clip_coefficient(sum, 1.0).coefficient, 0.0);
  }
}

// Of the first step.
constexpr AdamwScalars kScalars{1e-2, 0.9, 0.95, 1e-8, 0.1, 1 - 0.9, 1 - 0.95, 0.5, false};

TYPED_TEST(KernelTest, AdamwMatchesTheScalarFormulaOverSeveralSteps) {
  using T = TypeParam;
  const std::int64_t n = 1001, offset = 100, decay_elements = 400;
  auto master = random_values<T>(n, 1);
  auto m = buffer<T>(n, 0.0), v = buffer<T>(n, 0.0), param = buffer<T>(n);
  std::vector<double> p(master.begin(), master.end()), first(p.size()), second(p.size());
  AdamwScalars scalars = kScalars;
  for (int t = 1; t <= 5; ++t) {
    scalars.bias_correction1 = 1 - std::pow(0.9, t);
    scalars.bias_correction2 = 1 - std::pow(0.95, t);
    const auto grad = random_values<T>(n, static_cast<unsigned>(100 + t));
    adamw<T>(scalars, {master.data(), m.data(), v.data(), grad.data(), param.data(), n, offset,
                       decay_elements});
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = 0.5 * double{grad[i]};
      if (i < 300) p[i] *= 1 - 1e-2 * 0.1;
      first[i] = 0.9 * first[i] + (1 - 0.9) * g;
      second[i] = 0.95 * second[i] + (1 - 0.95) * g * g;
      const double m_hat = first[i] / (1 - std::pow(0.9, t));
      const double v_hat = second[i] / (1 - std::pow(0.95, t));
      p[i] -= 1e-2 * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
    expect_near(master, p, 16);
    expect_near(m, first, 8);
    expect_near(v, second, 8);
    EXPECT_EQ(param, master);
  }
}

TYPED_TEST(KernelTest, AdamwOnShardsEqualsAdamwOnTheWholeBitForBit) {
  using T = TypeParam;
  const std::int64_t n = 2 * kElementBlock + 77, decay = kElementBlock + 5;
  const auto grad = random_values<T>(n, 9);
  auto whole = random_values<T>(n, 1), parts = whole;
  auto m = buffer<T>(n, 0.1), v = buffer<T>(n, 0.2), m_parts = m, v_parts = v;
  adamw<T>(kScalars, {whole.data(), m.data(), v.data(), grad.data(), nullptr, n, 0, decay});
  for (const auto& [begin, end] :
       {std::pair{std::int64_t{0}, std::int64_t{4097}}, std::pair{std::int64_t{4097}, n}}) {
    adamw<T>(kScalars, {parts.data() + begin, m_parts.data() + begin, v_parts.data() + begin,
                        grad.data() + begin, nullptr, end - begin, begin, decay});
  }
  EXPECT_EQ(whole, parts);
  EXPECT_EQ(m, m_parts);
  EXPECT_EQ(v, v_parts);
}

TYPED_TEST(KernelTest, AdamwSkippedStepOnlyCopiesTheMaster) {
  using T = TypeParam;
  const std::int64_t n = 50;
  const auto before = random_values<T>(n, 1);
  auto master = before, m = buffer<T>(n, 1.0), v = buffer<T>(n, 2.0), param = buffer<T>(n);
  const auto grad = buffer<T>(n, std::nan(""));
  AdamwScalars scalars = kScalars;
  scalars.skip = true;
  adamw<T>(scalars, {master.data(), m.data(), v.data(), grad.data(), param.data(), n, 0, n});
  EXPECT_EQ(master, before);
  EXPECT_EQ(m, buffer<T>(n, 1.0));
  EXPECT_EQ(v, buffer<T>(n, 2.0));
  EXPECT_EQ(param, before);
}

// ---- thread count ----

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
                        {dwte.data(), dwpe.data(), dy.data(), ids.data(), false, false});
  keep(y), keep(dwte), keep(dwpe);

  auto mean = buffer<T>(tokens), rstd = buffer<T>(tokens), dgain = buffer<T>(h);
  auto dbias = buffer<T>(h), dx = buffer<T>(tokens * h);
  layernorm_forward<T>({tokens, h},
                       {y.data(), mean.data(), rstd.data(), x.data(), gain.data(), gain.data()});
  layernorm_backward<T>({tokens, h}, {dx.data(), dgain.data(), dbias.data(), dy.data(), x.data(),
                                      mean.data(), rstd.data(), gain.data(), false, false});
  keep(y), keep(dx), keep(dgain), keep(dbias);

  const auto qkv = random_values<T>(tokens * 3 * h, 5);
  auto lse = buffer<T>(tokens * heads), dqkv = buffer<T>(tokens * 3 * h);
  const AttentionShape attention{batch, sequence, heads, d};
  attention_forward<T>(attention, {y.data(), lse.data(), qkv.data()}, space);
  attention_backward<T>(attention, {dqkv.data(), dy.data(), y.data(), lse.data(), qkv.data()},
                        space);
  keep(y), keep(dqkv);

  const LinearShape linear{tokens, h, h};
  GemmCache cache;
  cache.prepare<T>(linear_wgrad_gemm(linear, false));
  auto dw = buffer<T>(h * h);
  linear_wgrad<T>(cache, linear, {dw.data(), dbias.data(), dy.data(), x.data(), false}, space);
  keep(dw), keep(dbias);

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
  adamw<T>(kScalars, {p.data(), m.data(), v.data(), g.data(), nullptr, n, 0, n / 2});
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
