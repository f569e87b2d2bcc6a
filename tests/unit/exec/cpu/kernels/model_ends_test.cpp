// Segments and the bias of logits against plain formulas.
#include "exec/cpu/kernels/model_ends.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

using Values = std::vector<double>;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Tokens 5 to 11 of sequences of 12 in three segments of four.
constexpr SegmentShape kShape{2, 7, 3, 3, 4, 5};

TEST(Segments, EachTokenGainsTheRowOfItsSegment) {
  const Values rows = random_values<double>(kShape.segments * kShape.hidden, 1);
  Values x(index(kShape.batch * kShape.sequence * kShape.hidden), 1.0);
  segment_forward<double>(kShape, x.data(), rows.data());
  for (std::int64_t b = 0; b < kShape.batch; ++b)
    for (std::int64_t i = 0; i < kShape.sequence; ++i)
      for (std::int64_t j = 0; j < kShape.hidden; ++j) {
        const std::int64_t segment = i < 3 ? 1 : 2;
        EXPECT_EQ(x[index((b * kShape.sequence + i) * kShape.hidden + j)],
                  1 + rows[index(segment * kShape.hidden + j)]);
      }
}

TEST(Segments, ARowHasTheSumOfItsTokensGradients) {
  const Values dx = random_values<double>(kShape.batch * kShape.sequence * kShape.hidden, 2);
  Values rows(index(kShape.segments * kShape.hidden), 77.0), expected(rows.size());
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const auto token = static_cast<std::int64_t>(i) / kShape.hidden % kShape.sequence;
    const std::int64_t j = static_cast<std::int64_t>(i) % kShape.hidden;
    expected[index((token < 3 ? 1 : 2) * kShape.hidden + j)] += dx[i];
  }
  for (const bool adds : {false, true}) {
    segment_backward<double>(kShape, rows.data(), dx.data(), adds);
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_NEAR(rows[i], (adds ? 2 : 1) * expected[i], 1e-14) << i;
  }
}

TEST(AddBias, EachRowGainsTheBias) {
  Values x{1, 2, 3, 4, 5, 6};
  const Values bias{10, 20, 30};
  add_bias<double>(2, 3, x.data(), bias.data());
  EXPECT_EQ(x, (Values{11, 22, 33, 14, 25, 36}));
}

}  // namespace
}  // namespace zplan::exec::cpu
