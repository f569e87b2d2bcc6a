// Which blocks a model has follows from its features; names and initialisation from its family.
#include "planner/lower/blocks/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace zplan {
namespace {

using testing::ElementsAre;
using Lines = std::vector<std::string>;

struct Params {
  explicit Params(const ModelConfig& model, Plan plan = {}) {
    plan.batch.sequence = model.sequence;
    const Decoder decoder(model, plan, find_kernel_set("cpu.f32"));
    table = decoder.params();
    for (const Operator& op : table.operators())
      for (const Param p : op.params) by_name[table.spec(p).name] = table.spec(p);
  }
  // Of the vectors, without the norms'.
  Lines biases() const {
    Lines names;
    for (const auto& [name, spec] : by_name)
      if (name.ends_with(".bias") && name.find("ln_") == name.npos) names.push_back(name);
    return names;
  }
  ParamTable table;
  std::map<std::string, ParamSpec> by_name;
};

TEST(Decoder, StatesOperatorsInForwardOrder) {
  const auto names = [](const char* model) {
    const Params params(load_model(model));
    Lines result;
    for (const Operator& op : params.table.operators()) result.push_back(op.name);
    return result;
  };
  EXPECT_THAT(names("tiny-gpt"),
              ElementsAre("embedding", "position", "qkv", "proj", "fc1", "fc2", "final_norm"));
  EXPECT_THAT(names("tiny-llama"),
              ElementsAre("embedding", "qkv", "proj", "fc1", "fc2", "final_norm", "head"));
  EXPECT_THAT(names("tiny-switch"),
              ElementsAre("embedding", "position", "qkv", "proj", "fc1", "fc2", "qkv", "proj",
                          "router", "experts_up", "experts_down", "final_norm"));
  EXPECT_THAT(names("tiny-latent"),
              ElementsAre("embedding", "qkv", "proj", "fc1", "fc2", "qkv", "proj", "router",
                          "shared_fc1", "shared_fc2", "latent_in", "experts_up", "experts_down",
                          "latent_out", "final_norm", "head"));
  EXPECT_THAT(names("tiny-hybrid"),
              ElementsAre("embedding", "state_in", "state_out", "router", "experts_up",
                          "experts_down", "qkv", "proj", "fc1", "fc2", "final_norm", "head"));
  EXPECT_THAT(
      names("tiny-delta"),
      ElementsAre("embedding", "state_in", "state_out", "router", "experts_up", "experts_down",
                  "qkv", "proj", "router", "experts_up", "experts_down", "final_norm", "head"));
  EXPECT_THAT(
      names("tiny-kimi"),
      ElementsAre("embedding", "gates", "state_in", "state_out", "fc1", "fc2", "gates", "state_in",
                  "state_out", "router", "shared_fc1", "shared_fc2", "experts_up", "experts_down",
                  "qkv", "proj", "router", "shared_fc1", "shared_fc2", "experts_up", "experts_down",
                  "gates", "state_in", "state_out", "router", "shared_fc1", "shared_fc2",
                  "experts_up", "experts_down", "final_norm", "head"));
  EXPECT_THAT(
      names("tiny-blender"),
      ElementsAre("embedding", "position", "encoder_position", "encoder_norm", "qkv", "proj", "fc1",
                  "fc2", "qkv", "proj", "cross", "cross_proj", "fc1", "fc2", "final_norm"));
}

// Stages that cut the turn of a pattern have runs of equal layers, each by itself.
TEST(Decoder, HasTurnsOfAPatternOrRunsOfEqualLayers) {
  ModelConfig model = load_model("tiny-hybrid");
  model.layers = 8;
  model.pattern = pattern_of("MM*-", 8);
  model.experts.reset();
  Plan plan;
  const auto ranges = [&] {
    std::vector<std::pair<std::int32_t, std::int32_t>> all;
    const Decoder decoder(model, plan, find_kernel_set("cpu.f32"));
    for (const LayerKind& kind : decoder.layers())
      all.emplace_back(kind.layers.first, kind.layers.count);
    return all;
  };
  plan.parallel.pp = 2;
  EXPECT_EQ(ranges(), (std::vector<std::pair<std::int32_t, std::int32_t>>(4)));
  plan.parallel.pp = 4;
  EXPECT_THAT(ranges(), ElementsAre(std::pair(0, 2), std::pair(2, 1), std::pair(3, 1),
                                    std::pair(4, 2), std::pair(6, 1), std::pair(7, 1)));
}

TEST(Decoder, ATiedHeadIsTheTableOfTheTokensOnBothEnds) {
  const Plan plan;
  for (const bool tied : {true, false}) {
    ModelConfig model = load_model("tiny-gpt");
    model.tied_embeddings = tied;
    const Decoder decoder(model, plan, find_kernel_set("cpu.f32"));
    EXPECT_EQ(decoder.head().is_tied(), tied);
    EXPECT_EQ(decoder.head().weight() == decoder.embedding().token(), tied);
    EXPECT_EQ(decoder.params().operators()[0].held, tied ? Held::kBothEnds : Held::kFirstStage);
  }
}

TEST(Decoder, BiasesAreThoseThatTheModelHas) {
  ModelConfig model = load_model("tiny-gpt");
  const std::string h = "transformer.h.{}.";
  EXPECT_THAT(Params(model).biases(), ElementsAre(h + "attn.c_attn.bias", h + "attn.c_proj.bias",
                                                  h + "mlp.c_fc.bias", h + "mlp.c_proj.bias"));
  model.biases = Biases::kQkv;
  EXPECT_THAT(Params(model).biases(), ElementsAre(h + "attn.c_attn.bias"));
  model.biases = Biases::kNone;
  EXPECT_TRUE(Params(model).biases().empty());
}

// Queries, keys and values are cut each for itself; what feeds the residual stream, by rows.
TEST(Decoder, ParametersSayHowTheyAreCut) {
  const ModelConfig model = load_model("tiny-llama");  // h 64, 4 heads, 2 of keys, f 128
  const Params params(model);
  const auto split = [&](const char* name) {
    return params.by_name.at("model.layers.{}." + std::string(name)).split;
  };
  using Kind = Split::Kind;
  EXPECT_EQ(split("self_attn.qkv_proj.weight"), (Split{Kind::kColumns, {64, 32, 32}}));
  EXPECT_EQ(split("mlp.gate_up_proj.weight"), (Split{Kind::kColumns, {128, 128}}));
  EXPECT_EQ(split("self_attn.o_proj.weight"), (Split{Kind::kRows, {}}));
  EXPECT_EQ(split("mlp.down_proj.weight"), (Split{Kind::kRows, {}}));
  EXPECT_EQ(split("input_layernorm.weight"), Split{});
}

// Each tensor parallel rank has its columns of an expert's biases; what the router has is whole.
TEST(Decoder, BiasesOfExpertsAreCutAsTheirColumns) {
  const Params params(load_model("tiny-gpt-oss"));  // h 64, 4 experts of 24
  const auto spec = [&](const char* name) {
    return params.by_name.at("model.layers.{}.mlp." + std::string(name));
  };
  using Kind = Split::Kind;
  EXPECT_EQ(spec("experts.gate_up_proj.bias").published, (Shape{4, 48}));
  EXPECT_EQ(spec("experts.gate_up_proj.bias").split, (Split{Kind::kColumns, {24, 24}}));
  EXPECT_EQ(spec("experts.down_proj.bias").published, (Shape{4, 64}));
  EXPECT_EQ(spec("experts.down_proj.bias").split, (Split{Kind::kColumns, {64}}));
  EXPECT_EQ(spec("gate.bias").published, (Shape{4}));
  EXPECT_EQ(spec("gate.bias").split, Split{});
  EXPECT_TRUE(spec("gate.bias").summed);
  for (const char* name : {"experts.gate_up_proj.bias", "experts.down_proj.bias", "gate.bias"}) {
    EXPECT_EQ(spec(name).init, Init::kZero) << name;
    EXPECT_FALSE(spec(name).decay) << name;
  }
}

// What is by head is cut, each head whole; latents and their norms are of all ranks together.
TEST(Decoder, LatentAttentionIsCutByHeads) {
  const Params params(load_model("tiny-mla"));
  const auto spec = [&](const char* name) {
    return params.by_name.at("model.layers.{}.self_attn." + std::string(name) + ".weight");
  };
  using Kind = Split::Kind;
  EXPECT_EQ(spec("q_b_proj").split, (Split{Kind::kColumns, {4 * 20}}));
  EXPECT_EQ(spec("kv_b_proj").split, (Split{Kind::kColumns, {4 * 28}}));
  EXPECT_EQ(spec("o_proj").split, (Split{Kind::kRows, {}}));
  for (const char* name :
       {"q_a_proj", "kv_a_proj", "k_rope_proj", "q_a_layernorm", "kv_a_layernorm"}) {
    EXPECT_EQ(spec(name).split, Split{}) << name;
    EXPECT_TRUE(spec(name).summed) << name;
  }
  EXPECT_FALSE(params.by_name.at("model.layers.{}.input_layernorm.weight").summed);
  EXPECT_EQ(spec("kv_a_proj").published, (Shape{64, 16}));
  EXPECT_EQ(spec("k_rope_proj").published, (Shape{64, 8}));
}

TEST(Decoder, OnlyGpt2ScalesWhatFeedsTheResidualStream) {
  const Params gpt(load_model("tiny-gpt")), llama(load_model("tiny-llama"));  // 4 layers
  EXPECT_EQ(gpt.by_name.at("transformer.h.{}.mlp.c_fc.weight").std, 0.02);
  EXPECT_EQ(gpt.by_name.at("transformer.h.{}.mlp.c_proj.weight").std, 0.02 / std::sqrt(8.0));
  EXPECT_EQ(llama.by_name.at("model.layers.{}.mlp.down_proj.weight").std, 0.02);
  EXPECT_FALSE(gpt.by_name.at("transformer.h.{}.ln_1.weight").decay);
  EXPECT_EQ(gpt.by_name.at("transformer.h.{}.ln_1.weight").init, Init::kOne);
}

TEST(Decoder, FeaturesOfOneFamilyGoWithTheNamesOfAnother) {
  ModelConfig model = load_model("tiny-llama");
  model.position = Position::kLearned;
  model.norm = Norm::kLayerNorm;
  const Params params(model);
  EXPECT_EQ(params.by_name.at("model.embed_positions.weight").published, (Shape{32, 64}));
  EXPECT_TRUE(params.by_name.contains("model.layers.{}.input_layernorm.bias"));
  EXPECT_TRUE(params.by_name.contains("model.norm.bias"));
}

}  // namespace
}  // namespace zplan
