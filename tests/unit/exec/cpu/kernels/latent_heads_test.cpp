// Heads of latent attention element by element, and the gradient as what turns back.
#include "exec/cpu/kernels/latent_heads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numeric>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kBatch = 2, kSequence = 5, kHeads = 3, kNope = 4, kValue = 7;
constexpr std::int64_t kTokens = kBatch * kSequence;

LatentHeadsShape shape(std::int64_t rope, double theta, std::int64_t first = 0) {
  return {kBatch, kSequence, kHeads, kNope, rope, kValue, theta, first};
}

// Element i of a rope at a position: pairs are complex numbers that turn by position theta^(-2i/r).
template <typename At>
double turned(const LatentHeadsShape& s, std::int64_t position, std::int64_t i, const At& at) {
  const std::int64_t half = s.rope / 2, pair = i % half;
  const double angle =
      s.theta == 0
          ? 0
          : static_cast<double>(position) *
                std::pow(s.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(s.rope));
  const auto result = std::complex(at(pair), at(half + pair)) * std::polar(1.0, angle);
  return i < half ? result.real() : result.imag();
}

class LatentHeads : public testing::TestWithParam<LatentHeadsShape> {};

TEST_P(LatentHeads, StandWhereAttentionReadsThem) {
  const LatentHeadsShape s = GetParam();
  const std::int64_t d = s.key(), e = s.nope + s.value;
  const auto q = random_values<double>(kTokens * kHeads * d, 1);
  const auto kv = random_values<double>(kTokens * kHeads * e, 2);
  const auto rope = random_values<double>(kTokens * s.rope, 3);
  auto qkv = buffer<double>(kTokens * s.columns());
  latent_heads_forward<double>(s, {qkv.data(), q.data(), kv.data(), rope.data()});
  std::vector<double> expected;
  for (std::int64_t token = 0; token < kTokens; ++token) {
    const std::int64_t position = s.first + token % kSequence;
    for (std::int64_t head = 0; head < kHeads; ++head)
      for (std::int64_t i = 0; i < d; ++i) {
        const double* own = q.data() + (token * kHeads + head) * d;
        expected.push_back(i < s.nope ? own[i]
                                      : turned(s, position, i - s.nope,
                                               [&](std::int64_t j) { return own[s.nope + j]; }));
      }
    for (std::int64_t head = 0; head < kHeads; ++head)
      for (std::int64_t i = 0; i < d; ++i)
        expected.push_back(i < s.nope
                               ? kv[static_cast<std::size_t>((token * kHeads + head) * e + i)]
                               : turned(s, position, i - s.nope, [&](std::int64_t j) {
                                   return rope[static_cast<std::size_t>(token * s.rope + j)];
                                 }));
    for (std::int64_t head = 0; head < kHeads; ++head)
      for (std::int64_t i = 0; i < s.value; ++i)
        expected.push_back(kv[static_cast<std::size_t>((token * kHeads + head) * e + s.nope + i)]);
  }
  expect_near(qkv, expected, 8);
}

// The forward is linear, so that <forward(x), y> = <x, backward(y)>.
TEST_P(LatentHeads, HaveTheTransposeAsTheirGradient) {
  const LatentHeadsShape s = GetParam();
  const std::int64_t d = s.key(), e = s.nope + s.value;
  const auto q = random_values<double>(kTokens * kHeads * d, 1);
  const auto kv = random_values<double>(kTokens * kHeads * e, 2);
  const auto rope = random_values<double>(kTokens * s.rope, 3);
  const auto dqkv = random_values<double>(kTokens * s.columns(), 4);
  auto qkv = buffer<double>(kTokens * s.columns());
  latent_heads_forward<double>(s, {qkv.data(), q.data(), kv.data(), rope.data()});
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  for (const bool adds : {false, true}) {
    auto dq = buffer<double>(kTokens * kHeads * d), dkv = buffer<double>(kTokens * kHeads * e);
    auto drope = buffer<double>(kTokens * s.rope, 1.0);
    latent_heads_backward<double>(s, {dq.data(), dkv.data(), drope.data(), dqkv.data(), adds});
    const double before = adds ? std::accumulate(rope.begin(), rope.end(), 0.0) : 0.0;
    EXPECT_NEAR(dot(q, dq) + dot(kv, dkv) + dot(rope, drope) - before, dot(qkv, dqkv), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LatentHeads,
                         testing::Values(shape(2, 10000), shape(6, 50, 3), shape(6, 0),
                                         shape(140, 10000)));  // 70 pairs: two rounds

}  // namespace
}  // namespace zplan::exec::cpu
