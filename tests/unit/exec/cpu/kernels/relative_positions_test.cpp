// Biases of scores by distance: buckets as published, fused and separate kernels against each
// other, and their gradients against finite differences.
#include "exec/cpu/kernels/relative_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/attention_unfused.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

using ::testing::ElementsAre;
using Values = std::vector<double>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<std::int64_t> buckets_of(const RelativeBuckets& rule,
                                     const std::vector<std::int64_t>& places) {
  std::vector<std::int64_t> all;
  for (const std::int64_t behind : places) all.push_back(rule.of(behind));
  return all;
}

// As T5Attention._relative_position_bucket of transformers gives them for 32 buckets up to 128.
TEST(RelativePositions, BucketsAreThosePublished) {
  const RelativeBuckets both{32, 128, true}, causal{32, 128, false};
  EXPECT_THAT(buckets_of(both, {0, -1, -7, -8, -11, -12, -16, -32, -63, -64, -90, -91, -127, -500}),
              ElementsAre(0, 1, 7, 8, 8, 9, 10, 12, 13, 14, 14, 15, 15, 15));
  EXPECT_THAT(buckets_of(both, {1, 7, 8, 64, 128}), ElementsAre(17, 23, 24, 30, 31));
  EXPECT_THAT(buckets_of(causal, {5, 0, -15, -16, -19, -32, -64, -113, -127, -128}),
              ElementsAre(0, 0, 15, 16, 17, 21, 26, 31, 31, 31));
}

// Over several blocks of keys, with shared heads. Causal scores are half of the products, so that
// the slopes of the two differ.
AttentionShape shape_of(bool both_ways) {
  AttentionShape shape{2, 150, 4, 2, 6};
  shape.rule = {.divisor = both_ways ? 1 : 4, .both_ways = both_ways};
  return shape;
}

SquareRows squares_of(const AttentionShape& s) { return {s.batch * s.heads, s.sequence}; }
std::int64_t offsets(const AttentionShape& s) { return 2 * s.sequence - 1; }
std::int64_t out_size(const AttentionShape& s) {
  return s.batch * s.sequence * s.heads * s.value_dim;
}
std::int64_t qkv_size(const AttentionShape& s) { return s.batch * s.sequence * s.columns(); }

struct Result {
  Values out, dqkv, dbias;
};

// The gradient of the bias is added to what is there.
Result fused(const AttentionShape& s, const Values& qkv, const Values& dout, const Values& bias) {
  Result x{Values(index(out_size(s))), Values(index(qkv_size(s))), Values(bias.size(), 1.0)};
  Values lse(index(s.batch * s.heads * s.sequence));
  Workspace forward(attention_forward_scratch_bytes<double>(s, 2));
  attention_forward<double>(s, {x.out.data(), lse.data(), qkv.data(), bias.data()}, forward.span());
  Workspace backward(attention_backward_scratch_bytes<double>(s, 2));
  attention_backward<double>(s,
                             {x.dqkv.data(), dout.data(), x.out.data(), lse.data(), qkv.data(),
                              bias.data(), x.dbias.data()},
                             backward.span());
  return x;
}

Result unfused(const AttentionShape& s, const Values& qkv, const Values& dout, const Values& bias) {
  Result x{Values(index(out_size(s))), Values(index(qkv_size(s))), Values(bias.size(), 1.0)};
  const SquareRows squares = squares_of(s);
  Values probs(index(squares.squares * s.sequence * s.sequence)), dprobs(probs.size());
  GemmCache gemm;
  Workspace scratch(Bytes{1 << 22});
  attention_scores<double>(gemm, s, probs.data(), qkv.data(), scratch.span());
  relative_scores<double>(squares, s.heads, probs.data(), bias.data());
  softmax_forward<double>(squares, probs.data(), {s.heads, s.rule});
  attention_context<double>(gemm, s, x.out.data(), probs.data(), qkv.data(), scratch.span());
  attention_context_gradient<double>(gemm, s, dprobs.data(), dout.data(), qkv.data(),
                                     scratch.span());
  softmax_backward<double>(squares, dprobs.data(), probs.data(), s.rule);
  relative_scores_gradient<double>(squares, s.heads, x.dbias.data(), dprobs.data());
  attention_scores_gradient<double>(
      gemm, s, {x.dqkv.data(), dprobs.data(), probs.data(), dout.data(), qkv.data()},
      scratch.span());
  return x;
}

void expect_all_near(const Values& a, const Values& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(RelativePositions, FusedAndSeparateKernelsAgree) {
  for (const bool both_ways : {false, true}) {
    const AttentionShape s = shape_of(both_ways);
    const Values qkv = random_values<double>(qkv_size(s), 1, 0.5);
    const Values dout = random_values<double>(out_size(s), 2, 1.0);
    const Values bias = random_values<double>(s.heads * offsets(s), 3, 1.0);
    const Result a = fused(s, qkv, dout, bias), b = unfused(s, qkv, dout, bias);
    expect_all_near(a.out, b.out, 1e-12);
    expect_all_near(a.dqkv, b.dqkv, 1e-11);
    expect_all_near(a.dbias, b.dbias, 1e-11);
  }
}

// Of the second of two heads of the second of two sequences: query 1 and key 2 are one apart.
TEST(RelativePositions, ScoresGainWhatTheirDistanceHas) {
  constexpr std::int64_t kSequence = 3, kOffsets = 5;
  Values scores(index(2 * 2 * kSequence * kSequence)), bias(index(2 * kOffsets));
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(i);
  relative_scores<double>({4, kSequence}, 2, scores.data(), bias.data());
  const std::size_t at = index((3 * kSequence + 1) * kSequence);
  EXPECT_EQ(scores[at + 0], 5 + 1);
  EXPECT_EQ(scores[at + 1], 5 + 2);
  EXPECT_EQ(scores[at + 2], 5 + 3);
  relative_scores_gradient<double>({4, kSequence}, 2, bias.data(), scores.data());
  EXPECT_EQ(bias[5 + 3], 8 + 2 * 2 * 8) << "two pairs of each of two sequences";
}

TEST(RelativePositions, TheGradientOfTheBiasIsTheSlopeOfTheResult) {
  for (const bool both_ways : {false, true}) {
    const AttentionShape s = shape_of(both_ways);
    const Values qkv = random_values<double>(qkv_size(s), 4, 0.5);
    const Values dout = random_values<double>(out_size(s), 5, 1.0);
    Values bias = random_values<double>(s.heads * offsets(s), 6, 1.0);
    const Result x = fused(s, qkv, dout, bias);
    const auto value = [&] {
      const Values out = unfused(s, qkv, dout, bias).out;
      double sum = 0;
      for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
      return sum;
    };
    constexpr double kStep = 1e-5;
    // Of the second head: keys before the query, its own, and behind it.
    for (const std::int64_t behind : {-149, -70, -1, 0, 40}) {
      const std::size_t at = index(offsets(s) + s.sequence - 1 + behind);
      const double kept = bias[at];
      bias[at] = kept + kStep;
      const double above = value();
      bias[at] = kept - kStep;
      const double below = value();
      bias[at] = kept;
      EXPECT_NEAR(x.dbias[at] - 1, (above - below) / (2 * kStep), 1e-7) << behind;
    }
  }
}

TEST(RelativePositions, ABucketHasTheSumOfItsDistances) {
  constexpr std::int64_t kHeads = 3, kSequence = 21, kBuckets = 8;
  for (const bool both_ways : {false, true}) {
    const RelativeBuckets rule{kBuckets, 10, both_ways};
    const Values table = random_values<double>(kBuckets * kHeads, 7, 1.0);
    const Values dbias = random_values<double>(kHeads * (2 * kSequence - 1), 8, 1.0);
    Values bias(dbias.size()), expected(table.size()), dtable(table.size(), 7.0);
    relative_positions<double>(rule, kHeads, kSequence, bias.data(), table.data());
    for (std::int64_t head = 0; head < kHeads; ++head)
      for (std::int64_t i = 0; i < 2 * kSequence - 1; ++i) {
        const std::size_t at = index(head * (2 * kSequence - 1) + i);
        const std::size_t bucket = index(rule.of(i - (kSequence - 1)) * kHeads + head);
        EXPECT_EQ(bias[at], table[bucket]);
        expected[bucket] += dbias[at];
      }
    relative_positions_gradient<double>(rule, kHeads, kSequence, dtable.data(), dbias.data(),
                                        false);
    expect_all_near(dtable, expected, 1e-14);
    relative_positions_gradient<double>(rule, kHeads, kSequence, dtable.data(), dbias.data(), true);
    for (double& x : expected) x *= 2;
    expect_all_near(dtable, expected, 1e-14);
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
