// Asks tests/data/spellings.tsv of the library: each text has to be understood as the file says, or
// refused with what can be typed instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "hwprofiles/cluster_spelling.h"
#include "hwprofiles/hw_profile.h"
#include "models/model_template.h"
#include "planner/core/error.h"
#include "planner/foreign/model_file.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Fields = std::vector<std::string>;

std::vector<Fields> read_spellings() {
  std::ifstream file(ZPLAN_SOURCE_DIR "/tests/data/spellings.tsv");
  std::vector<Fields> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Fields fields(1);
    for (const char c : line) {
      if (c == '\t')
        fields.emplace_back();
      else
        fields.back() += c;
    }
    rows.push_back(std::move(fields));
  }
  return rows;
}

// What was made of a text: "dgx2x32 512", or the error.
struct Understood {
  std::string name, error;
  bool is_unknown() const {
    return error.starts_with("unknown ") || error.starts_with("no file or folder ");
  }
};

Understood understand(const Fields& row) {
  try {
    if (row[0] == "model") return {load_named_model(row[1]).model.name, ""};
    const Cluster cluster = load_cluster(row[1]);
    return {cluster.name + " " + std::to_string(cluster.devices()), ""};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << row[1];
    return {"", error.what()};
  }
}

TEST(Spellings, AreUnderstoodOrAskedBackAsTheFileSays) {
  const std::vector<Fields> rows = read_spellings();
  EXPECT_GE(rows.size(), 200U);
  for (const Fields& row : rows) {
    SCOPED_TRACE(row[0] + " " + row[1]);
    ASSERT_GE(row.size(), 3U);
    const Understood found = understand(row);
    EXPECT_EQ(found.error.find('\n'), std::string::npos);
    if (row[2] == "is") {
      EXPECT_EQ(found.name, row[3] + (row.size() > 4 ? " " + row[4] : "")) << found.error;
      continue;
    }
    EXPECT_THAT(found.name, IsEmpty());
    EXPECT_EQ(found.is_unknown(), row[2] == "unknown") << found.error;
    for (std::size_t i = 3; i < row.size(); ++i) EXPECT_THAT(found.error, HasSubstr(row[i]));
  }
}

// Plans and files keep names, which lead to the same hardware and model.
TEST(Spellings, AreKeptByNamesThatMeanTheSame) {
  for (const Fields& row : read_spellings()) {
    if (row[2] != "is") continue;
    SCOPED_TRACE(row[1]);
    if (row[0] == "model") {
      EXPECT_EQ(load_named_model(row[3]).model.name, row[3]);
      continue;
    }
    const Cluster typed = load_cluster(row[1]), kept = load_cluster(row[3]);
    EXPECT_EQ(kept.name, row[3]);
    EXPECT_EQ(kept.node.hash, typed.node.hash);
    EXPECT_EQ(kept.devices(), typed.devices());
    EXPECT_EQ(kept.node.devices_per_node, typed.node.devices_per_node);
    EXPECT_EQ(kept.fast_link_domain, typed.fast_link_domain);
  }
}

TEST(Spellings, OfGpusSayWhichServerAndNetworkAreMeant) {
  const auto sentence = [](const char* typed) {
    const Cluster cluster = load_cluster(typed);
    return cluster.understood.empty() ? std::string() : cluster.understood.front();
  };
  EXPECT_EQ(sentence("16xH100"),
            "16xH100 is taken for 2 nodes of 8 H100-SXM5-80GB as in dgx-h100 (2048 GiB of CPU "
            "memory and 8 NVMe drives, assumed): peer links of 450 GB/s within, 8 x 400 Gbit/s "
            "between");
  EXPECT_EQ(sentence("2x4090"),
            "2x4090 is taken for a node of 2 GeForce RTX 4090 24GB as in rtx4090-workstation (256 "
            "GiB of CPU memory and 1 NVMe drive, assumed): PCIe within");
  EXPECT_EQ(sentence("RTX4090x2").substr(9), sentence("2x4090").substr(6));
  EXPECT_THAT(sentence("a100-80gb"), HasSubstr("; not A100-PCIe-80GB as in a100-pcie-80"));
  EXPECT_THAT(sentence("g6e.12xlarge"), HasSubstr("host and network of the instance are not"));
  EXPECT_THAT(sentence("mi300xx8"), HasSubstr("as in mi300x; type 8xmi300x"));
  EXPECT_THAT(sentence("dgx-h100x2"), IsEmpty());
  EXPECT_THAT(sentence("DGX H100 x 2"), IsEmpty());
}

TEST(Spellings, OfClustersTakeSettings) {
  const Cluster cluster = load_cluster("16xH100{nvme=50GB/s}");
  EXPECT_EQ(cluster.name, "dgx-h100x2{nvme=50GB/s}");
  EXPECT_EQ(catalogue_name("4x4090{network=x2}"), "rtx4090-workstation{network=x2}");
  EXPECT_EQ(catalogue_name("2x4090{network=x2}"),
            "rtx4090-workstation{gpus_per_node=2,network=x2}");
}

TEST(Spellings, OfModelsSayWhatIsNotTheSame) {
  const auto sentence = [](const char* typed) {
    const NamedModel named = load_named_model(typed);
    return named.assumed.empty() ? std::string() : named.assumed.front().sentence;
  };
  EXPECT_EQ(sentence("llama-3.1-8b"),
            "llama-3.1-8b is taken for llama3-8b, which has its shape; its weights have 131072 "
            "positions");
  EXPECT_EQ(sentence("13B"), "13B is taken for llama2-13b, a published model of that size");
  EXPECT_EQ(sentence("unsloth/llama-3-8b"), "unsloth/llama-3-8b is taken for llama3-8b");
  EXPECT_THAT(sentence("Llama 3 8B"), IsEmpty());
  EXPECT_THAT(sentence("1T"), IsEmpty());
  EXPECT_EQ(load_named_model("llama-3.1-8b").model.trained_positions, 131'072);
  EXPECT_EQ(load_named_model("llama3-8b").model.trained_positions, 8'192);
  EXPECT_EQ(load_named_model("llama-7b").model.sequence, 2'048);
  EXPECT_EQ(model_hash(load_named_model("llama-3.1-8b").model),
            model_hash(load_named_model("llama3-8b").model));
}

// [Touvron23b], [Touvron23 Table 2], [Zhang22 Table 1], [Dubey24 Table 3]
TEST(Spellings, OfSizesMeanPublishedShapes) {
  const auto expect_shape = [](const char* size, std::int64_t layers, std::int64_t hidden,
                               std::int64_t heads) {
    const ModelConfig model = load_named_model(size).model;
    EXPECT_EQ(model.layers, layers) << size;
    EXPECT_EQ(model.hidden, hidden) << size;
    EXPECT_EQ(model.heads, heads) << size;
  };
  expect_shape("7B", 32, 4096, 32);
  expect_shape("8B", 32, 4096, 32);
  expect_shape("13B", 40, 5120, 40);
  expect_shape("30B", 48, 7168, 56);
  expect_shape("33B", 60, 6656, 52);
  expect_shape("65B", 80, 8192, 64);
  expect_shape("70B", 80, 8192, 64);
  expect_shape("175B", 96, 12288, 96);
  expect_shape("405B", 126, 16384, 128);
  expect_shape("530B", 105, 20480, 128);
  expect_shape("1T", 128, 25600, 256);
}

}  // namespace
}  // namespace zplan
