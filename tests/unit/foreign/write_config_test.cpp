#include "planner/foreign/hugging_face/write_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "models/model_formulas.h"
#include "models/vision_config.h"
#include "planner/foreign/model_file.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kFolder = std::string(ZPLAN_SOURCE_DIR) + "/tests/data/hugging_face/";

ModelConfig read(const std::string& text) {
  return read_hugging_face(parse_json(text, "config.json"), "config.json", "mine").model;
}

// All that is shown of a model but for what no config.json says: batch, rate of a router's bias
// and, of positions that are not learned, the sequence.
std::map<std::string, FeatureValue> fields(const ModelConfig& model) {
  std::map<std::string, FeatureValue> all;
  for (const ModelField& field : fields_of(model)) all.emplace(field.name, field.value);
  if (!model.gated_mlp && model.layer.activation == Activation::kGeluTanh) all.erase("activation");
  for (const char* unsaid : {"global_batch", "router_bias_rate"}) all.erase(unsaid);
  if (model.position != Position::kLearned) all.erase("sequence");
  return all;
}

void expect_back(const ModelConfig& model) {
  constexpr std::int64_t kMostAssumed = 8192;  // tokens of a sequence
  const WrittenConfig written = write_hugging_face(model);
  ASSERT_THAT(written.differences, IsEmpty()) << written.model_type;
  const ModelConfig back = read(written.text);
  EXPECT_EQ(fields(back), fields(model)) << written.text;
  EXPECT_EQ(parameter_count(back), parameter_count(model));
  if (model.sequence <= kMostAssumed) {
    EXPECT_EQ(back.sequence, model.sequence) << written.text;
  }
}

// Models that no class of transformers is.
const std::map<std::string, std::string> kNone = {{"gpt-1.3b-moe128", "expert_every"},
                                                  {"gpt-350m-moe128", "expert_every"},
                                                  {"tiny-bert", "bidirectional none and not true"},
                                                  {"tiny-bloom", "ffn 256 and not 128"},
                                                  {"tiny-delta", "layer_pattern"},
                                                  {"tiny-dsa", "kv_lora_rank"},
                                                  {"tiny-falcon", "mamba_chunk"},
                                                  {"tiny-hybrid", "mamba_chunk"},
                                                  {"tiny-jamba", "mamba1_inner"},
                                                  {"tiny-kimi", "kda_chunk"},
                                                  {"tiny-latent", "expert_latent_size"},
                                                  {"tiny-lfm2", "short_conv_width"},
                                                  {"tiny-mamba", "layer_pattern"},
                                                  {"tiny-mla", "kv_lora_rank"},
                                                  {"tiny-oss", "attention_sinks"},
                                                  {"tiny-switch", "dense_layers"},
                                                  {"tiny-vision", "vision_layers"}};

TEST(WriteConfig, SaysTheModelsOfTheCatalogue) {
  std::size_t written = 0;
  for (const ModelConfig& model : model_catalogue()) {
    SCOPED_TRACE(model.name);
    const auto none = kNone.find(model.name);
    if (none == kNone.end()) {
      expect_back(model);
      ++written;
      continue;
    }
    const WrittenConfig config = write_hugging_face(model);
    EXPECT_THAT(config.text, IsEmpty());
    EXPECT_THAT(config.differences, Contains(HasSubstr(none->second))) << config.model_type;
  }
  EXPECT_GE(written, 60U);
}

// Layers with states no key of most classes says.
TEST(WriteConfig, SaysTheModelsOfPublishedFiles) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".json" || entry.path().stem() == "counts") continue;
    SCOPED_TRACE(entry.path().stem().string());
    const ModelConfig model = text_alone(load_named_model(entry.path().string()).model);
    if (model.has_pattern() && write_hugging_face(model).text.empty()) continue;
    expect_back(model);
    ++files;
  }
  EXPECT_GE(files, 50U);
}

TEST(WriteConfig, NamesTheFamilyWhoseClassHasSuchLayers) {
  const std::pair<const char*, const char*> families[] = {{"gpt2-124m", "gpt2"},
                                                          {"gpt3-175b", "gpt2"},
                                                          {"opt-30b", "opt"},
                                                          {"llama3-8b", "llama"},
                                                          {"phi4", "llama"},
                                                          {"phi3-mini", "mistral"},
                                                          {"mistral-7b", "mistral"},
                                                          {"qwen2.5-7b", "qwen2"},
                                                          {"qwen3-8b", "qwen3"},
                                                          {"gemma2-9b", "gemma2"},
                                                          {"gemma3-1b", "gemma3_text"},
                                                          {"pythia-12b", "gpt_neox"},
                                                          {"bloom-176b", "bloom"},
                                                          {"mixtral-8x7b", "mixtral"},
                                                          {"qwen3-30b-a3b", "qwen3_moe"},
                                                          {"gpt-oss-20b", "gpt_oss"},
                                                          {"deepseek-v2", "deepseek_v2"},
                                                          {"deepseek-v3", "deepseek_v3"},
                                                          {"deepseek-v3.2", "deepseek_v32"},
                                                          {"bert-base", "bert"},
                                                          {"blenderbot-3b", "blenderbot"},
                                                          {"t5-small", "t5"},
                                                          {"tiny-olmo2", "olmo2"},
                                                          {"tiny-cohere2", "cohere2"},
                                                          {"tiny-granite", "granite"},
                                                          {"tiny-modernbert", "modernbert"},
                                                          {"llama4-maverick", "llama4_text"}};
  for (const auto& [model, type] : families)
    EXPECT_EQ(write_hugging_face(load_model(model)).model_type, type) << model;
}

// Single features on the models of the catalogue, which their families can say.
TEST(WriteConfig, SaysFeaturesThatNoModelOfTheCatalogueHas) {
  ModelConfig turning = load_model("phi4");
  turning.hidden = turning.heads * 98;  // of which 2 / 98 times 98 is less than 2, for one
  for (const std::int64_t size : {2, 6, 32, 54, 62, 64}) {
    turning.layer.rotary_size = size;
    SCOPED_TRACE(size);
    expect_back(turning);
    EXPECT_EQ(write_hugging_face(turning).model_type, "phi3");
  }
  ModelConfig stretched = load_model("llama3-8b");
  stretched.layer.rope_stretch = 4;
  stretched.layer.norm_epsilon = 1'000'000;
  expect_back(stretched);
  ModelConfig windows = load_model("qwen3-8b");
  windows.layer.window = 1024;
  windows.layer.window_layers = 3;
  windows.layer.full_layers = 1;
  expect_back(windows);
  ModelConfig sparse = load_model("qwen3-30b-a3b");
  sparse.experts->every = 2;
  sparse.experts->dense_layers = 1;
  expect_back(sparse);
  sparse.experts->every = 1;
  sparse.experts->dense_layers = 3;
  expect_back(sparse);
  ModelConfig biased = load_model("llama3-8b");
  biased.biases = Biases::kAll;
  expect_back(biased);
}

TEST(WriteConfig, DropsAsThePlanSays) {
  const ModelConfig model = load_model("gpt2");
  EXPECT_THAT(write_hugging_face(model).text, HasSubstr("\"attn_pdrop\": 0.0"));
  const std::string dropping = write_hugging_face(model, true).text;
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    EXPECT_THAT(dropping, HasSubstr("\"" + std::string(key) + "\": 0.1"));
  const std::string own = R"({"model_type": "opt", "dropout": 0.2, "activation_dropout": 0.3,
                              "note": "kept"})";
  const std::string without = with_dropout(own, false);
  for (const char* key : {"dropout", "attention_dropout", "activation_dropout"})
    EXPECT_THAT(without, HasSubstr("\"" + std::string(key) + "\": 0.0"));
  EXPECT_THAT(without, HasSubstr("kept"));
  EXPECT_THAT(write_hugging_face(load_model("llama3-8b"), true).notes,
              Contains(HasSubstr("dropout of attention alone")));
}

TEST(WriteConfig, SaysWhatTransformersDoesOtherwise) {
  EXPECT_THAT(write_hugging_face(load_model("flan-t5-base")).notes, Contains(HasSubstr("ties")));
  const WrittenConfig config = write_hugging_face(load_model("deepseek-v3"));
  EXPECT_THAT(config.notes, Contains(HasSubstr("router_bias_rate")));
  EXPECT_THAT(write_hugging_face(load_model("llama3-8b")).notes, IsEmpty());
}

TEST(WriteConfig, RefusesAModelThatAFamilySaysButForAField) {
  ModelConfig model = load_model("llama3-8b");
  model.layer.logit_cap = 30;
  const WrittenConfig config = write_hugging_face(model);
  EXPECT_THAT(config.text, IsEmpty());
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_THAT(config.differences, testing::ElementsAre("logit_cap none and not 30"));
}

}  // namespace
}  // namespace zplan
