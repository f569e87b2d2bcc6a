// The nearest name.
#include "planner/core/nearest.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(EditDistance, CountsEditsAndIgnoresCase) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("DGX2", "dgx2"), 0u);
  EXPECT_EQ(edit_distance("layres", "layers"), 1u);  // a swap
}

TEST(EditDistance, IsSymmetric) {
  EXPECT_EQ(edit_distance("workstation", "dgx-a100"), edit_distance("dgx-a100", "workstation"));
}

TEST(EditDistance, OfLongNamesIsBounded) {
  EXPECT_LE(edit_distance(std::string(1'000'000, 'a'), std::string(1'000'000, 'b')), 64u);
}

TEST(NearestName, PicksTheClosestCandidate) {
  EXPECT_EQ(nearest_name("gtp2", {"tiny", "gpt2", "gpt3"}), "gpt2");
  EXPECT_EQ(nearest_name("dgx3", {"dgx-a100", "dgx2"}), "dgx2");
}

TEST(NearestName, SaysNothingAboutUnrelatedNames) {
  EXPECT_EQ(nearest_name("zzzz", {"layers", "hidden"}), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
  EXPECT_EQ(did_you_mean("zzzz", {"layers"}), "");
  EXPECT_EQ(did_you_mean("layer", {"layers"}), "; did you mean \"layers\"?");
}

TEST(NearestOrPage, AsksAboutTheNearestAndNamesThePage) {
  const std::vector<std::string> names{"cpu.f64", "cpu.f32", "cpu.bf16", "cuda.sm90.bf16"};
  EXPECT_EQ(nearest_or_page("cpu.f23", names, "zplan list"),
            "; did you mean \"cpu.f32\"? (zplan list lists all)");
  EXPECT_EQ(nearest_or_page("zzz", names, "zplan list"), " (zplan list lists all)");
}

TEST(NearestOrPage, AsksAboutThreeAtMost) {
  EXPECT_EQ(nearest_or_page("ab", {"ac", "ad", "ae", "af"}, "p"),
            "; did you mean \"ac\" or \"ad\" or \"ae\"? (p lists all)");
}

TEST(NearestName, TiesGoToTheFirst) { EXPECT_EQ(nearest_name("ab", {"ac", "ad"}), "ac"); }

}  // namespace
}  // namespace zplan
