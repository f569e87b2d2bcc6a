// Philox against the known-answer vectors of Random123, and the project's draws.
#include "planner/core/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zplan {
namespace {

TEST(Philox, MatchesTheKnownAnswerVectors) {  // [Salmon11], Random123 kat_vectors, philox4x32 10
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, IsAConstantExpression) {
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);
}

TEST(Normal, IsFiniteAtTheEndsOfTheRange) {
  for (const std::uint32_t word : {0u, 0xffffffffu}) {
    EXPECT_TRUE(std::isfinite(normal_from({word, word, 0, 0})));
  }
  EXPECT_NEAR(normal_from({0, 0, 0, 0}), std::sqrt(-2 * std::log(0.5 / 4294967296.0)), 1e-9);
}

TEST(TensorDraws, HaveTheMomentsOfANormal) {
  constexpr int kCount = 200'000;
  const TensorDraws draws(1234, "layer.0.qkv.weight");
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = draws.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));  // four standard errors
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0) / std::sqrt(kCount));
}

TEST(TensorDraws, DependOnSeedNameAndBothHalvesOfTheIndex) {
  const TensorDraws base(1, "a");
  EXPECT_EQ(base.words(7), TensorDraws(1, "a").words(7));
  EXPECT_NE(base.words(7), TensorDraws(2, "a").words(7));
  EXPECT_NE(base.words(7), TensorDraws(1 + (1ull << 32), "a").words(7));
  EXPECT_NE(base.words(7), TensorDraws(1, "b").words(7));
  EXPECT_NE(base.words(7), base.words(7 + (1ull << 32)));
}

TEST(TensorDraws, UseTheDocumentedCounter) {
  EXPECT_EQ(TensorDraws(0x100000002ull, "a").words(0x300000004ull),
            philox4x32({4, 3, fnv1a32("a"), 0}, {2, 1}));
}

TEST(DataDraws, UseTheDocumentedCounter) {
  const PhiloxCounter words = philox4x32({4, 3, fnv1a32("data"), 1}, {2, 1});
  EXPECT_EQ(data_draw(0x100000002ull, 0x300000004ull),
            words[0] | (static_cast<std::uint64_t>(words[1]) << 32));
}

}  // namespace
}  // namespace zplan
