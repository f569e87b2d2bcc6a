// The narrowest cut against all ways to part a small graph in two, and of known graphs.
#include "hwprofiles/narrowest_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>

namespace zplan {
namespace {

std::int64_t least_of_all_parts(int vertices, const std::vector<CutEdge>& edges) {
  std::int64_t least = -1;
  for (unsigned part = 1; part < 1U << (vertices - 1); ++part) {
    std::int64_t cut = 0;
    for (const CutEdge& edge : edges)
      if ((part >> edge.a & 1U) != (part >> edge.b & 1U)) cut += edge.capacity;
    if (least < 0 || cut < least) least = cut;
  }
  return least;
}

TEST(NarrowestCut, IsTheLeastOfAllPartsInTwo) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto below = [&](int end) {
      return static_cast<int>(random() % static_cast<unsigned>(end));
    };
    const int vertices = 2 + below(9);
    std::vector<CutEdge> edges;
    for (int i = below(4 * vertices); i > 0; --i) {
      const int a = below(vertices), b = below(vertices);
      if (a != b) edges.push_back({a, b, 1 + below(5)});
    }
    EXPECT_EQ(narrowest_cut(vertices, edges), least_of_all_parts(vertices, edges)) << trial;
  }
}

// Each vertex of either mesh has seven edges or more, and one edge joins the meshes.
TEST(NarrowestCut, OfTwoMeshesIsTheEdgeBetweenThem) {
  std::vector<CutEdge> edges{{0, 8, 1}};
  for (int mesh : {0, 8})
    for (int a = 0; a < 8; ++a)
      for (int b = a + 1; b < 8; ++b) edges.push_back({mesh + a, mesh + b, 1});
  EXPECT_EQ(narrowest_cut(16, edges), 1);
  edges.erase(edges.begin());
  EXPECT_EQ(narrowest_cut(16, edges), 0);
}

TEST(NarrowestCut, OfATorusOf4096IsTheEdgesOfOneVertex) {
  constexpr int kSide = 16;
  std::vector<CutEdge> edges;
  const auto at = [](int x, int y, int z) {
    return (x % kSide * kSide + y % kSide) * kSide + z % kSide;
  };
  for (int x = 0; x < kSide; ++x)
    for (int y = 0; y < kSide; ++y)
      for (int z = 0; z < kSide; ++z)
        for (const int to : {at(x + 1, y, z), at(x, y + 1, z), at(x, y, z + 1)})
          edges.push_back({at(x, y, z), to, 50'000'000'000});
  EXPECT_EQ(narrowest_cut(kSide * kSide * kSide, edges), 300'000'000'000);
}

}  // namespace
}  // namespace zplan
