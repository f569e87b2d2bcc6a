// Segments, the bias of logits, rows of images and means of rows against plain formulas.
#include "exec/cpu/kernels/model_ends.h"

#include <gtest/gtest.h>

#include <vector>

#include "exec/cpu/kernels/image_rows.h"
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

// Tokens 3 to 8 of sequences of 4, of which the first two are of images, of one element.
constexpr ImageRowsShape kImages{6, 1, 4, 2, 3};

TEST(ImageRows, TakeThePlaceOfTheFirstTokensOfASequence) {
  const Values images{10, 11, 12, 13, 14, 15};
  Values x{1, 2, 3, 4, 5, 6};
  put_rows<double>(kImages, images.data(), x.data());
  EXPECT_EQ(x, (Values{1, 12, 13, 4, 5, 14}));
}

TEST(ImageRows, AreTakenOutOfTheGradientAndZeroWhereAnotherRankHasThem) {
  Values dx{1, 2, 3, 4, 5, 6}, images(6, 77.0);
  take_rows<double>(kImages, dx.data(), images.data(), 6);
  EXPECT_EQ(images, (Values{0, 0, 2, 3, 6, 0}));
  EXPECT_EQ(dx, (Values{1, 0, 0, 4, 5, 0}));
}

TEST(MeanRows, AreThoseOfNeighboursAndShareTheirGradient) {
  const Values x{1, 2, 3, 4, 5, 6, 7, 8};
  Values y(4), dx(8);
  mean_rows<double>(x.data(), y.data(), 2, 2, 2);
  EXPECT_EQ(y, (Values{2, 3, 6, 7}));
  mean_rows_gradient<double>(y.data(), dx.data(), 2, 2, 2);
  EXPECT_EQ(dx, (Values{1, 1.5, 1, 1.5, 3, 3.5, 3, 3.5}));
}

}  // namespace
}  // namespace zplan::exec::cpu
