// A config.json as it stands on the hub is the published model: its parameters are those of the
// published weights to the last one (tests/data/README.md says where both come from), and where
// the catalogue has the model, too, both are the same but for what no config.json says.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "models/model_formulas.h"
#include "models/vision_config.h"
#include "planner/core/json_reader.h"
#include "planner/foreign/model_file.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

const std::string kFolder = std::string(ZPLAN_SOURCE_DIR) + "/tests/data/hugging_face/";

ModelConfig read_whole(const std::string& name) {
  return load_named_model(kFolder + name + ".json").model;
}
// Towers that a file has besides are counted by published_configs.py.
ModelConfig read(const std::string& name) { return text_alone(read_whole(name)); }

std::map<std::string, std::int64_t> published_counts() {
  std::map<std::string, std::int64_t> counts;
  JsonObject file = read_json_file(kFolder + "counts.json").object();
  for (const auto& [name, count] : file.member("parameters").members())
    counts[name] = count.integer(1, std::int64_t{1} << 50);
  return counts;
}

TEST(HuggingFaceCounts, AreThoseOfThePublishedWeights) {
  const auto counts = published_counts();
  EXPECT_GE(counts.size(), 30u);
  for (const auto& [name, count] : counts) EXPECT_EQ(parameter_count(read(name)), count) << name;
}

// As fields_of() shows them; "usual" is the tanh form of GELU in an MLP without a gate.
std::map<std::string, FeatureValue> fields(const ModelConfig& model) {
  std::map<std::string, FeatureValue> all;
  for (const ModelField& field : fields_of(model)) all.emplace(field.name, field.value);
  if (!model.gated_mlp && model.layer.activation == Activation::kGeluTanh) all.erase("activation");
  for (const char* not_in_a_config : {"sequence", "global_batch"}) all.erase(not_in_a_config);
  return all;
}

struct Pair {
  const char* file;
  const char* catalogue;
  std::set<std::string> other = {};  // fields that differ, each for the reason beside it
};

// What transformers 5 writes of a file that an earlier version wrote is the same model.
TEST(HuggingFaceCounts, AreTheSameInTheSpellingsOfTransformers5) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "transformers5")) {
    const std::string name = entry.path().stem().string();
    SCOPED_TRACE(name);
    const NamedModel later = load_named_model(entry.path().string());
    EXPECT_EQ(fields(later.model), fields(read_whole(name)));
    EXPECT_EQ(later.model.sequence, read(name).sequence);
    for (const std::string& one : later.left_out)
      EXPECT_EQ(one.find("unknown"), std::string::npos) << one;
    ++files;
  }
  EXPECT_GE(files, 20u);
}

TEST(HuggingFaceCounts, ReadModelsAsTheCatalogueHasThem) {
  // [Gemma25 Table 1] counts 262,144 tokens; the weights have 64 more rows, the class's default.
  const std::set<std::string> gemma = {"vocab"};
  // [DeepSeek25 sec 4.2] says both of its training; aux_loss_alpha of the file is another number.
  const std::set<std::string> v3 = {"balance_loss", "router_bias_rate"};
  const Pair pairs[] = {{"gpt2", "gpt2-124m"},
                        {"gpt2-medium", "gpt2-355m"},
                        {"gpt2-large", "gpt2-774m"},
                        {"gpt2-xl", "gpt2-1.5b"},
                        {"llama-3-8b", "llama3-8b"},
                        {"llama-3-70b", "llama3-70b"},
                        {"llama-3.1-405b", "llama3-405b"},
                        {"mistral-7b-v0.1", "mistral-7b"},
                        {"mixtral-8x7b", "mixtral-8x7b"},
                        {"mixtral-8x22b", "mixtral-8x22b"},
                        {"qwen2.5-0.5b", "qwen2.5-0.5b"},
                        {"qwen2.5-7b", "qwen2.5-7b"},
                        {"qwen2.5-72b-instruct", "qwen2.5-72b"},
                        {"qwen3-0.6b", "qwen3-0.6b"},
                        {"qwen3-8b", "qwen3-8b"},
                        {"qwen3-30b-a3b", "qwen3-30b-a3b"},
                        {"gemma-2-9b", "gemma2-9b"},
                        {"gemma-2-27b", "gemma2-27b"},
                        {"gemma-3-1b", "gemma3-1b"},
                        {"gemma-3-4b", "gemma3-4b", gemma},
                        {"gemma-3-12b", "gemma3-12b", gemma},
                        {"gemma-3-27b", "gemma3-27b", gemma},
                        {"phi-3-mini-4k", "phi3-mini"},
                        {"phi-4", "phi4"},
                        {"gpt-neox-20b", "gpt-neox-20b"},
                        {"pythia-1.4b", "pythia-1.4b"},
                        {"pythia-6.9b", "pythia-6.9b"},
                        {"pythia-12b", "pythia-12b"},
                        {"opt-1.3b", "opt-1.3b"},
                        {"opt-30b", "opt-30b"},
                        {"bloom", "bloom-176b"},
                        {"gpt-oss-20b", "gpt-oss-20b"},
                        {"gpt-oss-120b", "gpt-oss-120b"},
                        {"deepseek-v2", "deepseek-v2"},
                        {"deepseek-v3", "deepseek-v3", v3},
                        {"bert-base-uncased", "bert-base"},
                        {"bert-large-uncased", "bert-large"},
                        {"t5-small", "t5-small"},
                        {"t5-base", "t5-base"},
                        {"t5-large", "t5-large"},
                        {"t5-3b", "t5-3b"},
                        {"t5-11b", "t5-11b"},
                        {"flan-t5-small", "flan-t5-small"},
                        {"flan-t5-base", "flan-t5-base"},
                        {"flan-t5-large", "flan-t5-large"},
                        {"flan-t5-xl", "flan-t5-xl"},
                        {"flan-t5-xxl", "flan-t5-xxl"}};
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.file);
    auto ours = fields(load_model(pair.catalogue)), theirs = fields(read(pair.file));
    std::set<std::string> different;
    for (const auto& [name, value] : ours)
      if (!theirs.contains(name) || theirs.at(name) != value) different.insert(name);
    for (const auto& [name, value] : theirs)
      if (!ours.contains(name)) different.insert(name);
    EXPECT_EQ(different, pair.other);
  }
}

}  // namespace
}  // namespace zplan
