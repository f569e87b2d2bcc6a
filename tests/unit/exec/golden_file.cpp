#include "tests/unit/exec/golden_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/source_dir.h"

namespace zplan::exec::testing {
namespace {

using nlohmann::json;

const std::string kFolder = std::string(ZPLAN_SOURCE_DIR) + "/tests/data/";

GoldenTensor load_tensor(const json& entry, std::ifstream& binary) {
  GoldenTensor tensor{entry.at("kind"), entry.at("name"), {}, {}};
  for (std::int64_t dim : entry.at("shape")) tensor.shape.dims[tensor.shape.rank++] = dim;
  tensor.values.resize(static_cast<std::size_t>(tensor.shape.elements()));
  binary.seekg(entry.at("offset_bytes").get<std::int64_t>());
  binary.read(reinterpret_cast<char*>(tensor.values.data()),
              static_cast<std::streamsize>(tensor.values.size() * sizeof(double)));
  return tensor;
}

}  // namespace

GoldenFile load_golden() {
  std::ifstream text(kFolder + "golden_gpt2_tiny.json");
  const json file = json::parse(text);
  const json& model = file.at("config").at("model");
  const json& train = file.at("config").at("train");
  GoldenFile golden;
  golden.seed = train.at("seed");
  golden.init_std = train.at("init_std");
  golden.layers = model.at("layers");
  golden.sequence = model.at("seq");
  golden.global_batch = train.at("global_batch");
  golden.sample_starts = file.at("sample_starts").get<std::vector<std::vector<std::int64_t>>>();
  std::ifstream binary(kFolder + file.at("binary").at("file").get<std::string>(), std::ios::binary);
  for (const json& entry : file.at("tensors")) golden.tensors.push_back(load_tensor(entry, binary));
  return golden;
}

}  // namespace zplan::exec::testing
