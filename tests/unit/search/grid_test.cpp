// Axes of a sweep as they are typed.
#include "planner/search/grid.h"

#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;
using Values = std::vector<std::string>;

Values values(const std::string& text) { return parse_axis(text).values; }

TEST(Grid, AxesAreListsAndRanges) {
  EXPECT_EQ(parse_axis("batch=512,1024").name, "batch");
  EXPECT_EQ(values("batch=512,1024"), (Values{"512", "1024"}));
  EXPECT_EQ(values("model=gpt3,./a.json"), (Values{"gpt3", "./a.json"}));
  EXPECT_EQ(values("cluster=../a.json,dgx2"), (Values{"../a.json", "dgx2"}));
  EXPECT_EQ(values("nodes=1..64"), (Values{"1", "2", "4", "8", "16", "32", "64"}));
  EXPECT_EQ(values("nodes=3..20"), (Values{"3", "6", "12", "20"}));
  EXPECT_EQ(values("nodes=4..4"), (Values{"4"}));
  EXPECT_EQ(values("nvme=0.5..3GB/s"), (Values{"0.5GB/s", "1GB/s", "2GB/s", "3GB/s"}));
  EXPECT_EQ(values("nvme=1GB/s..2GB/s"), (Values{"1GB/s", "2GB/s"}));
  EXPECT_EQ(values("tp=2..8:2"), (Values{"2", "4", "6", "8"}));
  EXPECT_EQ(values("tp=1..8:3"), (Values{"1", "4", "7"}));
  EXPECT_EQ(values("zero=0..3:1"), (Values{"0", "1", "2", "3"}));
  EXPECT_EQ(values("gpu.memory=80..120GiB:20GiB"), (Values{"80GiB", "100GiB", "120GiB"}));
  EXPECT_EQ(values("headroom=0.1..0.3:0.1").size(), 3u);
  EXPECT_EQ(values("nodes=1..4,10"), (Values{"1", "2", "4", "10"}));
}

TEST(Grid, IsTheProductAndItsLastAxisVariesFastest) {
  const std::vector<GridAxis> axes{{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  const auto points = grid_points(axes);
  ASSERT_EQ(points.size(), 6u);
  EXPECT_EQ(points[0], (Values{"1", "x"}));
  EXPECT_EQ(points[1], (Values{"1", "y"}));
  EXPECT_EQ(points[5], (Values{"2", "z"}));
  EXPECT_EQ(point_words(axes, points[5]), "a=2, b=z");
}

TEST(Grid, RefusesWhatIsNoAxis) {
  for (const char* const text : {"nodes", "=4", "nodes=", "nodes=1,,2", "nodes=8..2", "nodes=0..4",
                                 "nodes=1..4:0", "nvme=1MB/s..2GB/s", "nodes=1..x"})
    EXPECT_NE(message_of([&] { parse_axis(text); }).find("such as nodes=1..64"), std::string::npos)
        << text;
  EXPECT_NE(message_of([] { parse_axis("nodes=1..5000:1"); }).find("at most 1000 values"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              grid_points({{"a", {"1"}}, {"a", {"2"}}});
            }).find("more than once"),
            std::string::npos);
  const Values many(200, "1");
  EXPECT_NE(message_of([&] {
              grid_points({{"a", many}, {"b", many}});
            }).find("10000 questions"),
            std::string::npos);
}

}  // namespace
}  // namespace zplan
