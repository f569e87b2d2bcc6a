#include "planner/program/job/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/meshes.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing_support::mesh_of;

TEST(Mesh, NumbersEveryPlaceOnce) {
  for (const bool pipeline_first : {false, true}) {
    const Mesh mesh =
        mesh_of({.dp = 6, .tp = 2, .pp = 5, .shards = 3, .pipeline_first = pipeline_first});
    EXPECT_EQ(mesh.world(), 60);
    std::set<MeshPoint> points;
    for (std::int32_t rank = 0; rank < mesh.world(); ++rank) {
      const MeshPoint at = mesh.point(rank);
      EXPECT_EQ(mesh.rank_of(at), rank);
      points.insert(at);
    }
    EXPECT_EQ(points.size(), 60u);
    EXPECT_EQ(mesh_fault(mesh), std::nullopt);
  }
}

TEST(Mesh, AnAxisIsFoundByItsNameOrAsAllItsParts) {
  const Mesh mesh = mesh_of({.dp = 6, .tp = 2, .pp = 5, .shards = 3});
  EXPECT_EQ(mesh.size("dp"), 6);
  EXPECT_EQ(mesh.size("dp.0"), 3);
  EXPECT_EQ(mesh.size("pp"), 5);
  EXPECT_EQ(mesh.size("cp"), 1);
  EXPECT_TRUE(mesh.named("cp").empty());
  EXPECT_EQ(name(mesh, mesh.named("dp")), "dp.0+dp.1");
  EXPECT_EQ(name(mesh, testing_support::groups::kEmbedding), "ends(pp)");
  EXPECT_EQ(name(mesh, AxisSet{}), "none");
  EXPECT_EQ(mesh.size(testing_support::groups::kEmbedding), 2) << "the first and the last of 5";
  EXPECT_EQ(mesh_of({.dp = 6}).size(testing_support::groups::kEmbedding), 1) << "one is both";
}

TEST(Mesh, IndicesRunOverTheFirstAxisFastest) {
  const Mesh mesh = mesh_of({.dp = 6, .tp = 2, .pp = 5, .shards = 3});
  const AxisSet data = mesh.named("dp");
  const MeshPoint at{1, 2, 1, 4};
  EXPECT_EQ(mesh.index_in(data, at), 2 + 3 * 1);
  EXPECT_EQ(mesh.index_in({}, at), 0);
  EXPECT_EQ(along(mesh.steps_over(data, 10), at), 50);
  EXPECT_EQ(mesh.step_over(data, mesh.steps_over(data, 10)), 10);
  EXPECT_EQ(mesh.step_over(mesh.all(), mesh.steps_over(data, 10)), std::nullopt);
  EXPECT_EQ(mesh.step_over(data, {}), 0);
  EXPECT_EQ(mesh.reach(mesh.steps_over(data, 10)), 50);
}

TEST(Mesh, ItsFaultsAreNamed) {
  const auto fault = [](std::vector<Axis> axes) {
    return mesh_fault({std::move(axes)}).value_or("");
  };
  EXPECT_EQ(fault({{"tp", 2, 1}, {"pp", 3, 2}}), "");
  EXPECT_THAT(fault({{"tp", 2, 1}}), HasSubstr("no axis pp"));
  EXPECT_THAT(fault({{"tp", 2, 1}, {"pp", 3, 1}}), HasSubstr("1 ranks apart, expected 2"));
  EXPECT_THAT(fault({{"tp", 2, 1}, {"pp", 3, 3}}), HasSubstr("3 ranks apart, expected 2"));
  EXPECT_THAT(fault({{"tp", 0, 1}, {"pp", 1, 1}}), HasSubstr("axis tp of size 0"));
  EXPECT_THAT(fault({{"pp", 1, 1}, {"pp", 1, 1}}), HasSubstr("two axes named pp"));
  EXPECT_THAT(fault({{"t p", 1, 1}, {"pp", 1, 1}}), HasSubstr("an axis named 't p'"));
  EXPECT_THAT(fault(std::vector<Axis>(kMaxAxes + 1, {"pp", 1, 1})), HasSubstr("up to 8"));
}

}  // namespace
}  // namespace zplan
