#include "hwprofiles/fabric_routes.h"

#include <gtest/gtest.h>

#include "hwprofiles/hw_profile.h"

namespace zplan {
namespace {

std::map<std::string, double> loads_of(const Fabric& fabric, const char* from, const char* to) {
  std::vector<double> loads(fabric.graph().links().size());
  FabricRoutes(fabric).add(*fabric.graph().find(from), *fabric.graph().find(to), 1, loads);
  std::map<std::string, double> named;
  for (std::size_t i = 0; i < loads.size(); ++i)
    if (loads[i] != 0) named[fabric.graph().links()[i].name] = loads[i];
  return named;
}

// Counted by hand: +1 in two dimensions of a torus has two ways of two links.
TEST(FabricRoutes, AFlowTakesAllShortestWaysAlike) {
  const Fabric torus(load_cluster("dgx-h100x64-torus"));
  EXPECT_EQ(loads_of(torus, "router[0,0,0]", "router[0,0,1]"),
            (std::map<std::string, double>{{"router[0,0,0]>router[0,0,1]", 1}}));
  EXPECT_EQ(loads_of(torus, "router[0,0,0]", "router[0,1,1]"),
            (std::map<std::string, double>{{"router[0,0,0]>router[0,0,1]", 0.5},
                                           {"router[0,0,0]>router[0,1,0]", 0.5},
                                           {"router[0,0,1]>router[0,1,1]", 0.5},
                                           {"router[0,1,0]>router[0,1,1]", 0.5}}));
  // Half way around either way: over two links forward or back.
  EXPECT_EQ(loads_of(torus, "router[0,0,0]", "router[0,0,2]"),
            (std::map<std::string, double>{{"router[0,0,0]>router[0,0,1]", 0.5},
                                           {"router[0,0,1]>router[0,0,2]", 0.5},
                                           {"router[0,0,0]>router[0,0,3]", 0.5},
                                           {"router[0,0,3]>router[0,0,2]", 0.5}}));
}

TEST(FabricRoutes, FromGroupToGroupOfADragonflyThereIsOneBundle) {
  const Fabric fabric(load_cluster("dgx-h100x64-dragonfly"));
  // Groups 0 and 1 meet at router 0 of each; there is no other way of two links.
  EXPECT_EQ(loads_of(fabric, "router[0,0]", "router[1,1]"),
            (std::map<std::string, double>{{"router[0,0]>router[1,0]", 1},
                                           {"router[1,0]>router[1,1]", 1}}));
}

// Of eight cables to each of four spine switches those to one are gone; a quarter took them.
TEST(FabricRoutes, BrokenLinksLeaveTheOthersTheirPart) {
  const Fabric fabric(load_cluster("dgx-h100x64-weak"));
  const auto loads = loads_of(fabric, "leaf[0,0]", "leaf[1,0]");
  EXPECT_EQ(loads.size(), 6u);
  EXPECT_NEAR(loads.at("leaf[0,0]>spine[0,1]"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(loads_of(fabric, "leaf[0,1]", "leaf[1,1]").at("leaf[0,1]>spine[1,0]"), 0.25, 1e-12);
}

TEST(FabricRoutes, InAFoldedTreeThereIsOneWay) {
  const Fabric fabric = Fabric(load_cluster("meta-h100-24k")).folded();
  const FabricRoutes routes(fabric);
  std::vector<double> loads(fabric.graph().links().size());
  routes.add(fabric.switch_of(0, 0), fabric.switch_of(3071, 0), 2, loads);
  int used = 0;
  for (const double load : loads) {
    EXPECT_TRUE(load == 0 || load == 2);
    used += static_cast<int>(load != 0);
  }
  EXPECT_EQ(used, 4) << "up two levels and down two";
}

}  // namespace
}  // namespace zplan
