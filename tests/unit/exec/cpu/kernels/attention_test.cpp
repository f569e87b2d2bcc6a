// Attention, fused and in separate kernels, against plain softmax(q k^T / sqrt(d)) v in double;
// shared key-value heads against repeated ones; rotary positions.
#include "exec/cpu/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "exec/cpu/kernels/attention_unfused.h"
#include "exec/cpu/kernels/rope.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
class AttentionTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionTest, Types);

std::int64_t tokens_of(const AttentionShape& s) { return s.batch * s.sequence; }
std::int64_t out_size(const AttentionShape& s) { return tokens_of(s) * s.heads * s.value_dim; }
std::int64_t qkv_size(const AttentionShape& s) { return tokens_of(s) * s.columns(); }
std::int64_t square_size(const AttentionShape& s) {
  return s.batch * s.heads * s.sequence * s.sequence;
}

struct Plain {
  std::vector<double> out, lse;
};

// Element p of row i of a head of qkv; part 0, 1, 2 = q, k, v of a query head.
template <typename T>
double element(const AttentionShape& s, const std::vector<T>& qkv, std::int64_t b, std::int64_t i,
               int part, std::int64_t head, std::int64_t p) {
  const std::int64_t shared = head / s.group();
  const std::int64_t before[] = {head * s.head_dim, (s.heads + shared) * s.head_dim,
                                 (s.heads + s.kv_heads) * s.head_dim + shared * s.value_dim};
  return static_cast<double>(
      qkv[static_cast<std::size_t>((b * s.sequence + i) * s.columns() + before[part] + p)]);
}

// Of one query: its row of out, and the log of the sum of exp of its scores.
template <typename T>
double plain_row(const AttentionShape& s, const std::vector<T>& qkv, std::int64_t b,
                 std::int64_t head, std::int64_t i, double* out) {
  std::vector<double> weights;
  double total = 0;
  for (std::int64_t k = 0; k <= i; ++k) {
    double score = 0;
    for (std::int64_t p = 0; p < s.head_dim; ++p)
      score += element(s, qkv, b, i, 0, head, p) * element(s, qkv, b, k, 1, head, p);
    weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_dim))));
    total += weights.back();
  }
  for (std::int64_t p = 0; p < s.value_dim; ++p) {
    for (std::int64_t k = 0; k <= i; ++k)
      out[p] += weights[static_cast<std::size_t>(k)] / total * element(s, qkv, b, k, 2, head, p);
  }
  return std::log(total);
}

template <typename T>
Plain plain_attention(const AttentionShape& s, const std::vector<T>& qkv) {
  Plain plain{std::vector<double>(static_cast<std::size_t>(out_size(s))), {}};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      for (std::int64_t i = 0; i < s.sequence; ++i) {
        const std::int64_t at = ((b * s.sequence + i) * s.heads + head) * s.value_dim;
        plain.lse.push_back(plain_row(s, qkv, b, head, i, plain.out.data() + at));
      }
    }
  }
  return plain;
}

// One element, odd sizes, block edges, shared heads, values of a size of their own.
constexpr AttentionShape kShapes[] = {{1, 1, 1, 1, 1},   {2, 9, 3, 3, 5},      {1, 64, 2, 2, 16},
                                      {2, 65, 1, 1, 33}, {1, 200, 2, 2, 64},   {2, 67, 6, 2, 17},
                                      {1, 130, 4, 1, 8}, {2, 66, 4, 2, 12, 7}, {1, 70, 3, 3, 5, 9}};

template <typename T>
struct Fused {
  std::vector<T> out, dqkv;
  std::vector<Compute<T>> lse;
};

template <typename T>
Fused<T> fused(const AttentionShape& s, const std::vector<T>& qkv, const std::vector<T>& dout) {
  Fused<T> result{buffer<T>(out_size(s)), buffer<T>(qkv_size(s)),
                  buffer<Compute<T>>(tokens_of(s) * s.heads)};
  Workspace forward(attention_forward_scratch_bytes<T>(s, 1));
  attention_forward<T>(s, {result.out.data(), result.lse.data(), qkv.data()}, forward.span());
  Workspace backward(attention_backward_scratch_bytes<T>(s, 1));
  attention_backward<T>(
      s, {result.dqkv.data(), dout.data(), result.out.data(), result.lse.data(), qkv.data()},
      backward.span());
  return result;
}

TYPED_TEST(AttentionTest, FusedMatchesPlainSoftmax) {
  using T = TypeParam;
  for (const AttentionShape& s : kShapes) {
    const auto qkv = random_values<T>(qkv_size(s), 7, 2.0);
    const Fused<T> result = fused<T>(s, qkv, random_values<T>(out_size(s), 8));
    const Plain plain = plain_attention(s, qkv);
    expect_near(result.out, plain.out, 60);
    expect_near(result.lse, plain.lse, 20);
  }
}

TYPED_TEST(AttentionTest, SurvivesScoresThatOverflowExp) {
  using T = TypeParam;
  const AttentionShape s{1, 3, 1, 1, 1};
  const std::vector<T> qkv{1, 500, 1, 1, 900, 2, 1, 100, 3};  // scores reach 900
  auto out = buffer<T>(3), lse = buffer<T>(3);
  Workspace scratch(attention_forward_scratch_bytes<T>(s, 1));
  attention_forward<T>(s, {out.data(), lse.data(), qkv.data()}, scratch.span());
  EXPECT_EQ(out, (std::vector<T>{1, 2, 2}));
  EXPECT_EQ(lse, (std::vector<T>{500, 900, 900}));
}

template <typename T>
struct Unfused {
  std::vector<T> probs, out, dscores, dqkv;
};

template <typename T>
Unfused<T> unfused(const AttentionShape& s, const std::vector<T>& qkv, const std::vector<T>& dout) {
  Unfused<T> r{buffer<T>(square_size(s)), buffer<T>(out_size(s)), buffer<T>(square_size(s)),
               buffer<T>(qkv_size(s))};
  GemmCache cache;
  for (const GemmShape& shape :
       {attention_scores_gemm(s), attention_context_gemm(s), attention_context_gradient_gemm(s),
        attention_query_gradient_gemm(s), attention_key_gradient_gemm(s, false),
        attention_key_gradient_gemm(s, true), attention_value_gradient_gemm(s, false),
        attention_value_gradient_gemm(s, true)})
    cache.prepare<T>(shape);
  Workspace scratch(Bytes{1 << 21});
  attention_scores<T>(cache, s, r.probs.data(), qkv.data(), scratch.span());
  softmax_forward<T>({s.batch * s.heads, s.sequence}, r.probs.data());
  attention_context<T>(cache, s, r.out.data(), r.probs.data(), qkv.data(), scratch.span());
  attention_context_gradient<T>(cache, s, r.dscores.data(), dout.data(), qkv.data(),
                                scratch.span());
  softmax_backward<T>({s.batch * s.heads, s.sequence}, r.dscores.data(), r.probs.data());
  attention_scores_gradient<T>(
      cache, s, {r.dqkv.data(), r.dscores.data(), r.probs.data(), dout.data(), qkv.data()},
      scratch.span());
  return r;
}

TYPED_TEST(AttentionTest, SeparateKernelsMatchPlainSoftmaxAndTheFusedGradient) {
  using T = TypeParam;
  for (const AttentionShape& s : kShapes) {
    const auto qkv = random_values<T>(qkv_size(s), 7, 2.0), dout = random_values<T>(out_size(s), 8);
    const Unfused<T> separate = unfused<T>(s, qkv, dout);
    expect_near(separate.out, plain_attention(s, qkv).out, 60);
    expect_near(separate.dqkv, converted<double>(fused<T>(s, qkv, dout).dqkv), 200);
  }
}

TYPED_TEST(AttentionTest, ProbabilitiesSumToOneAndHiddenOnesAreZero) {
  using T = TypeParam;
  const AttentionShape s{2, 37, 3, 3, 8};
  const auto qkv = random_values<T>(qkv_size(s), 7, 2.0);
  const auto probs = unfused<T>(s, qkv, random_values<T>(out_size(s), 8)).probs;
  for (std::size_t row = 0; row < probs.size() / 37; ++row) {
    double sum = 0;
    for (std::size_t j = 0; j < 37; ++j) {
      sum += static_cast<double>(probs[row * 37 + j]);
      const bool is_hidden = j > row % 37;
      ASSERT_TRUE(!is_hidden || probs[row * 37 + j] == T{0});
    }
    ASSERT_NEAR(sum, 1, 10 * kEpsilon<T>);
  }
}

// qkv with every key and value head written once per query head.
template <typename T>
std::vector<T> repeated_heads(const AttentionShape& s, const std::vector<T>& qkv) {
  std::vector<T> result;
  for (std::int64_t t = 0; t < tokens_of(s); ++t)
    for (int part = 0; part < 3; ++part)
      for (std::int64_t head = 0; head < s.heads; ++head)
        for (std::int64_t p = 0; p < s.head_dim; ++p)
          result.push_back(
              static_cast<T>(element(s, qkv, t / s.sequence, t % s.sequence, part, head, p)));
  return result;
}

TYPED_TEST(AttentionTest, SharedHeadsEqualRepeatedOnes) {
  using T = TypeParam;
  const AttentionShape shared{2, 70, 6, 2, 9}, own{2, 70, 6, 6, 9};
  const auto qkv = random_values<T>(qkv_size(shared), 7), repeated = repeated_heads(shared, qkv);
  const auto dout = random_values<T>(out_size(shared), 8);
  const Fused<T> a = fused<T>(shared, qkv, dout), b = fused<T>(own, repeated, dout);
  expect_same(a.out, b.out);
  expect_same(a.lse, b.lse);
  // The gradient of a shared head is the sum over its copies.
  std::vector<double> expected(a.dqkv.size());
  for (std::int64_t t = 0; t < 140; ++t) {
    for (std::int64_t head = 0; head < 18; ++head) {
      const std::int64_t of = head % 6, part = head / 6;
      const std::int64_t to = part == 0 ? of : 6 + (part - 1) * 2 + of / 3;
      for (std::int64_t p = 0; p < 9; ++p)
        expected[static_cast<std::size_t>((t * 10 + to) * 9 + p)] +=
            static_cast<double>(b.dqkv[static_cast<std::size_t>((t * 18 + head) * 9 + p)]);
    }
  }
  expect_near(a.dqkv, expected, 50);
}

TYPED_TEST(AttentionTest, RopeTurnsPairsByTheirAngleAndBack) {
  using T = TypeParam;
  const RopeShape s{2, 5, 3, 6, 2};
  const auto x = random_values<T>(2 * 5 * 3 * 6, 1);
  std::vector<double> expected = converted<double>(x);
  for (std::size_t row = 0; row < 30; ++row) {
    for (std::size_t i = 0; i < 3 && row % 3 < 2; ++i) {
      const double position = static_cast<double>(row / 3 % 5);
      const double angle = position * std::pow(100.0, -static_cast<double>(i) / 3);
      const double a = static_cast<double>(x[row * 6 + i]);
      const double b = static_cast<double>(x[row * 6 + 3 + i]);
      expected[row * 6 + i] = a * std::cos(angle) - b * std::sin(angle);
      expected[row * 6 + 3 + i] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
  auto turned = x;
  rope<T>(s, turned.data(), 100.0, 1);
  expect_near(turned, expected, 4);
  rope<T>(s, turned.data(), 100.0, -1);
  expect_near(turned, converted<double>(x), 8);
}

}  // namespace
}  // namespace zplan::exec::cpu
