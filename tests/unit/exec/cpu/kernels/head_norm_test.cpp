// The norm of heads is the RMSNorm of each by itself, and what lies beside them stays.
#include "exec/cpu/kernels/head_norm.h"

#include <gtest/gtest.h>

#include "exec/cpu/kernels/norm.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

// 3 tokens of 7 heads of 5 elements, of which heads 2 to 5 are normalised.
constexpr HeadNormShape kShape{3, 7, 5, 2, 4};
constexpr std::int64_t kAll = 3 * 7 * 5, kNormed = 3 * 4 * 5;

template <typename T>
std::vector<T> normed_heads(const std::vector<T>& all) {
  std::vector<T> heads;
  for (std::size_t token = 0; token < 3; ++token)
    heads.insert(heads.end(), all.begin() + static_cast<std::ptrdiff_t>((token * 7 + 2) * 5),
                 all.begin() + static_cast<std::ptrdiff_t>((token * 7 + 6) * 5));
  return heads;
}

template <typename T>
std::vector<T> with_heads(std::vector<T> all, const std::vector<T>& heads) {
  for (std::size_t i = 0; i < heads.size(); ++i) all[(i / 20 * 7 + 2) * 5 + i % 20] = heads[i];
  return all;
}

TEST(HeadNorm, IsTheRmsNormOfEachHead) {
  const auto before = random_values<double>(kAll, 1), gain = random_values<double>(5, 2);
  auto x = before, kept = buffer<double>(kNormed), rstd = buffer<double>(12);
  head_norm_forward<double>(kShape, {x.data(), kept.data(), rstd.data(), gain.data()});
  EXPECT_EQ(kept, normed_heads(before));
  auto y = buffer<double>(kNormed), expected_rstd = buffer<double>(12);
  rmsnorm_forward<double>(
      {12, 5}, {y.data(), nullptr, expected_rstd.data(), kept.data(), gain.data(), nullptr});
  EXPECT_EQ(rstd, expected_rstd);
  EXPECT_EQ(x, with_heads(before, y));
}

TEST(HeadNorm, HasTheGradientOfTheRmsNorm) {
  const auto dy = random_values<double>(kAll, 1), kept = random_values<double>(kNormed, 2);
  const auto gain = random_values<double>(5, 3), rstd = random_values<double>(12, 4);
  for (const bool adds : {false, true}) {
    auto dx = dy, dgain = buffer<double>(5);
    head_norm_backward<double>(
        kShape, {dx.data(), dgain.data(), kept.data(), rstd.data(), gain.data(), adds});
    const auto own = normed_heads(dy);
    auto expected = buffer<double>(kNormed), expected_gain = buffer<double>(5);
    rmsnorm_backward<double>(
        {12, 5}, {expected.data(), expected_gain.data(), nullptr, own.data(), kept.data(), nullptr,
                  rstd.data(), gain.data(), false, adds});
    EXPECT_EQ(dx, with_heads(dy, expected));
    EXPECT_EQ(dgain, expected_gain);
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
