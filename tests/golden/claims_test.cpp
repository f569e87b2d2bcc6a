// What `zplan bandwidth --paper` prints: figures of papers beside what counting gives, worked out
// here by hand from the papers' own shapes. Tolerance: half of the last digit that is shown.
#include "planner/cli/bandwidth/claims.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace zplan {
namespace {

// By the place that prints it.
std::map<std::string, Claim> by_source() {
  std::map<std::string, Claim> found;
  for (const Claim& claim : paper_claims())
    found.emplace(std::string(claim.source) + " " + std::string(claim.what.substr(0, 5)), claim);
  return found;
}

double counted(const std::string& key) { return by_source().at(key).counted; }

TEST(Claims, AreWhatCountingGives) {
  const double trillion = 12.0 * 128 * 25600 * 25600, v100 = 31.75 * 1024 * 1024 * 1024;
  EXPECT_NEAR(counted("[Rajbhandari21] abstract V100s"), 20 * trillion / v100, 0.5);
  EXPECT_NEAR(counted("[Rajbhandari21 Table 1] all s"), 39.3, 0.05);
  EXPECT_NEAR(counted("[Rajbhandari21] abstract share"), 0.293, 5e-4);
  EXPECT_NEAR(counted("[Rajbhandari21 Fig. 2a] worki"), 1.56, 0.005);
  EXPECT_NEAR(counted("[Rajbhandari21 Fig. 6a] large"), 100.7, 0.05);
  EXPECT_NEAR(counted("[Rajbhandari21 Fig. 6e] slow-"), 0.0256, 5e-4);
  EXPECT_NEAR(counted("[Ren21 Table 3] 40B w"), 40.3, 0.05);
  EXPECT_NEAR(counted("[Rajbhandari20 sec 3.2] check"), 67.1, 0.05);
}

TEST(Claims, DifferByMoreThanWhatIsRounded) {
  for (const Claim& claim : paper_claims()) {
    EXPECT_GT(std::abs(claim.counted / claim.printed - 1), 0.1) << claim.source << claim.what;
    EXPECT_TRUE(claim.command.starts_with("zplan ")) << claim.command;
  }
}

}  // namespace
}  // namespace zplan
