// Windows, caps, divisors, slopes by distance, both ways and sinks: fused and separate kernels
// against plain formulas, and their gradients against finite differences.
#include "exec/kernels/attention_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/attention_unfused.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/sinks.h"
#include "tests/support/sanitized.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

using Values = std::vector<double>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Over several blocks of keys, with shared heads.
AttentionShape shape_of(const AttentionRule& rule) {
  AttentionShape shape{2, 150, 4, 2, 6};
  shape.rule = rule;
  return shape;
}

std::int64_t out_size(const AttentionShape& s) {
  return s.batch * s.sequence * s.heads * s.value_dim;
}
std::int64_t qkv_size(const AttentionShape& s) { return s.batch * s.sequence * s.columns(); }

bool is_seen(const AttentionRule& rule, std::int64_t query, std::int64_t key) {
  if (rule.both_ways) return rule.window == 0 || std::abs(key - query) < rule.window;
  return key <= query && (rule.window == 0 || key > query - rule.window);
}

// softmax(scores) v, the scores with one of no value beside them where there are sinks.
Values plain(const AttentionShape& s, const Values& qkv, const Values& sinks) {
  const AttentionRule& r = s.rule;
  Values out(index(out_size(s)));
  const double root = std::sqrt(static_cast<double>(r.divisor == 0 ? s.head_dim : r.divisor));
  for (std::int64_t row = 0; row < s.batch * s.heads * s.sequence; ++row) {
    const std::int64_t i = row % s.sequence, head = row / s.sequence % s.heads;
    const std::int64_t b = row / s.sequence / s.heads, shared = head / s.group();
    const auto at = [&](std::int64_t token, std::int64_t column) {
      return qkv[index((b * s.sequence + token) * s.columns() + column)];
    };
    Values weights(index(s.sequence));
    double total = sinks.empty() ? 0 : std::exp(sinks[index(head)]);
    for (std::int64_t j = 0; j < s.sequence; ++j) {
      if (!is_seen(r, i, j)) continue;
      double score = 0;
      for (std::int64_t p = 0; p < s.head_dim; ++p)
        score += at(i, head * s.head_dim + p) * at(j, (s.heads + shared) * s.head_dim + p);
      score /= root;
      if (r.cap != 0) score = r.cap * std::tanh(score / r.cap);
      score -= r.slope(head) * static_cast<double>(std::abs(i - j));
      total += weights[index(j)] = std::exp(score);
    }
    for (std::int64_t p = 0; p < s.value_dim; ++p)
      for (std::int64_t j = 0; j < s.sequence; ++j)
        out[index(((b * s.sequence + i) * s.heads + head) * s.value_dim + p)] +=
            weights[index(j)] / total *
            at(j, (s.heads + s.kv_heads) * s.head_dim + shared * s.value_dim + p);
  }
  return out;
}

struct Result {
  Values out, dqkv, dsinks;
};

Result fused(const AttentionShape& s, const Values& qkv, const Values& dout, const Values& sinks) {
  Result x{Values(index(out_size(s))), Values(index(qkv_size(s))), Values(sinks.size())};
  Values lse(index(s.batch * s.heads * s.sequence));
  Workspace forward(attention_forward_scratch_bytes<double>(s, 1));
  attention_forward<double>(s, {x.out.data(), lse.data(), qkv.data()}, forward.span());
  const SinksShape of_sinks{s.batch, s.sequence, s.heads, s.value_dim};
  if (!sinks.empty()) {
    sinks_forward<double>(of_sinks, {x.out.data(), lse.data(), sinks.data()});
    sinks_backward<double>(
        of_sinks, {x.dsinks.data(), dout.data(), x.out.data(), lse.data(), sinks.data(), false});
  }
  Workspace backward(attention_backward_scratch_bytes<double>(s, 1));
  attention_backward<double>(s, {x.dqkv.data(), dout.data(), x.out.data(), lse.data(), qkv.data()},
                             backward.span());
  return x;
}

Result unfused(const AttentionShape& s, const Values& qkv, const Values& dout,
               const Values& sinks) {
  Result x{Values(index(out_size(s))), Values(index(qkv_size(s))), Values(sinks.size())};
  const std::int64_t n = s.batch * s.heads * s.sequence * s.sequence;
  const SquareRows squares{s.batch * s.heads, s.sequence};
  Values scores(index(n)), probs(index(n)), dprobs(index(n));
  GemmCache cache;
  Workspace scratch(Bytes{1 << 22});
  attention_scores<double>(cache, s, scores.data(), qkv.data(), scratch.span());
  probs = scores;
  if (s.rule.cap != 0) soft_cap_forward(probs.data(), scores.data(), n, s.rule.cap);
  softmax_forward<double>(squares, probs.data(),
                          {s.heads, s.rule, sinks.empty() ? nullptr : sinks.data()});
  attention_context<double>(cache, s, x.out.data(), probs.data(), qkv.data(), scratch.span());
  attention_context_gradient<double>(cache, s, dprobs.data(), dout.data(), qkv.data(),
                                     scratch.span());
  if (!sinks.empty())
    sinks_gradient(squares, s.heads, x.dsinks.data(), dprobs.data(), probs.data(), false);
  softmax_backward<double>(squares, dprobs.data(), probs.data(), s.rule);
  if (s.rule.cap != 0) soft_cap_backward(dprobs.data(), scores.data(), n, s.rule.cap);
  attention_scores_gradient<double>(
      cache, s, {x.dqkv.data(), dprobs.data(), probs.data(), dout.data(), qkv.data()},
      scratch.span());
  return x;
}

class AttentionRules : public testing::TestWithParam<AttentionRule> {};

TEST_P(AttentionRules, FusedAndSeparateKernelsGiveWhatTheRuleSays) {
  const AttentionShape s = shape_of(GetParam());
  const Values qkv = random_values<double>(qkv_size(s), 1, 2.0);
  const Values dout = random_values<double>(out_size(s), 2, 1.0);
  for (const Values& sinks : {Values{}, random_values<double>(s.heads, 3, 1.0)}) {
    const Values expected = plain(s, qkv, sinks);
    const Result a = fused(s, qkv, dout, sinks), b = unfused(s, qkv, dout, sinks);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(a.out[i], expected[i], 1e-12);
      ASSERT_NEAR(b.out[i], expected[i], 1e-12);
    }
    for (std::size_t i = 0; i < a.dqkv.size(); ++i) ASSERT_NEAR(a.dqkv[i], b.dqkv[i], 1e-12) << i;
    for (std::size_t i = 0; i < sinks.size(); ++i)
      ASSERT_NEAR(a.dsinks[i], b.dsinks[i], 1e-11) << i;
  }
}

TEST_P(AttentionRules, GradientsAreTheSlopesOfTheResult) {
  constexpr double kStep = 1e-5;
  const AttentionShape s = shape_of(GetParam());
  const Values qkv = random_values<double>(qkv_size(s), 4, 2.0);
  const Values dout = random_values<double>(out_size(s), 5, 1.0);
  const Values sinks = random_values<double>(s.heads, 6, 1.0);
  const Result x = fused(s, qkv, dout, sinks);
  const auto value = [&](const Values& inputs, const Values& beside) {
    const Values out = plain(s, inputs, beside);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  const std::size_t elements = testing_support::kSanitized ? 2 : 13;
  for (std::size_t i = 17; i < qkv.size(); i += qkv.size() / elements) {
    Values up = qkv, down = qkv;
    up[i] += kStep, down[i] -= kStep;
    EXPECT_NEAR(x.dqkv[i], (value(up, sinks) - value(down, sinks)) / (2 * kStep), 1e-7) << i;
  }
  Values up = sinks, down = sinks;
  up[1] += kStep, down[1] -= kStep;
  EXPECT_NEAR(x.dsinks[1], (value(qkv, up) - value(qkv, down)) / (2 * kStep), 1e-7);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, AttentionRules,
    testing::Values(AttentionRule{}, AttentionRule{.window = 1}, AttentionRule{.window = 7},
                    AttentionRule{.window = 64}, AttentionRule{.window = 65},
                    AttentionRule{.window = 100}, AttentionRule{.window = 1000},
                    AttentionRule{.cap = 2}, AttentionRule{.divisor = 3},
                    AttentionRule{.slopes = 4}, AttentionRule{.slopes = 12, .first_head = 7},
                    AttentionRule{.both_ways = true}, AttentionRule{.window = 1, .both_ways = true},
                    AttentionRule{.window = 7, .both_ways = true},
                    AttentionRule{.window = 65, .both_ways = true},
                    AttentionRule{.window = 100, .both_ways = true},
                    AttentionRule{.window = 1000, .both_ways = true},
                    AttentionRule{.window = 70, .cap = 3, .divisor = 20, .slopes = 8},
                    AttentionRule{.cap = 3, .slopes = 4, .both_ways = true}));

// [Press22 sec 3]: 1/2, 1/4 .. 1/256 of 8 heads; of 12 those of 8 and every second of 16.
TEST(AttentionRule, SlopesAreGeometric) {
  const AttentionRule eight{.slopes = 8}, twelve{.slopes = 12}, later{.slopes = 8, .first_head = 3};
  for (std::int64_t head = 0; head < 8; ++head) {
    EXPECT_DOUBLE_EQ(eight.slope(head), std::exp2(-static_cast<double>(head + 1)));
    EXPECT_DOUBLE_EQ(twelve.slope(head), eight.slope(head));
  }
  for (std::int64_t head = 8; head < 12; ++head)
    EXPECT_DOUBLE_EQ(twelve.slope(head), std::exp2(-0.5 * static_cast<double>(2 * head - 15)));
  EXPECT_DOUBLE_EQ(later.slope(1), eight.slope(4));
  EXPECT_EQ(AttentionRule{}.slope(5), 0);
}

}  // namespace
}  // namespace zplan::exec::cpu
