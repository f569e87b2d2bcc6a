// Hardware as one document, and its hash.
#include "hwprofiles/hardware_document.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/quantities.h"

namespace zplan {
namespace {

Cluster read_back(const HardwareDocument& document) {
  Cluster cluster =
      read_cluster_file(parse_json(document.text, "h.json"), document.text, "/nowhere");
  for (const std::string& setting : document.settings)
    cluster = varied(std::move(cluster), {&setting, 1});
  return cluster;
}

std::string write(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path) << text;
  return path.string();
}

TEST(HardwareDocument, OfEveryKindOfNameIsThatHardware) {
  const std::string node = write("base.json", R"({"schema": "zplan.hw/1", "name": "mine",
    "base": "dgx2", "nvme": {"drives": 4}})");
  const std::string cluster = write("cluster.json", R"({"schema": "zplan.cluster/1", "name": "c",
    "node": "base.json{gpu.memory=20GiB}", "nodes": 3})");
  const std::string inner = write("inner.json", R"({"schema": "zplan.cluster/1", "name": "c",
    "node": {"schema": "zplan.hw/1", "name": "mine", "base": "base.json"}, "nodes": 3})");
  for (const std::string& name :
       {std::string("dgx2"), std::string("dgx-h100x16"), std::string("dgx-h100x1024-2to1"),
        std::string("dgx2x2{gpu.memory=20GiB,network=x2}"), node, node + "x4", cluster,
        cluster + "{nvme=x2}", inner}) {
    const Cluster wanted = load_cluster(name), found = read_back(hardware_document(name));
    EXPECT_EQ(found.nodes, wanted.nodes) << name;
    EXPECT_EQ(found.domain(), wanted.domain()) << name;
    EXPECT_EQ(found.network.oversubscription, wanted.network.oversubscription) << name;
    for (const HardwareQuantity& quantity : hardware_quantities())
      EXPECT_EQ(quantity.get(found), quantity.get(wanted)) << name << quantity.name;
  }
}

TEST(HardwareDocument, ItsHashIsOfFiguresAndNotOfWords) {
  const std::string text = R"({"schema": "zplan.hw/1", "name": "a", "base": "dgx2"})";
  const std::string before = hardware_hash(write("h.json", text));
  EXPECT_EQ(hardware_hash("dgx2"), before);  // whatever it is called
  EXPECT_EQ(hardware_hash(write("h.json", R"({"name": "b",  "schema": "zplan.hw/1",
    "description": "mine", "base": "dgx2"})")),
            before);
  EXPECT_NE(hardware_hash(write("h.json", R"({"schema": "zplan.hw/1", "name": "a", "base": "dgx2",
    "device": {"memory": "20 GiB"}})")),
            before);
  EXPECT_NE(hardware_hash("dgx2x2"), before);
  EXPECT_NE(hardware_hash("dgx2{network=x2}"), before);
}

}  // namespace
}  // namespace zplan
