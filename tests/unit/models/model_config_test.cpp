// The model catalogue, its look-up and its file format.
#include "models/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "models/model_formulas.h"
#include "models/model_template.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

const std::map<std::string, std::string> kValid = {{"schema", "\"zplan.model/1\""},
                                                   {"name", "\"m\""},
                                                   {"layers", "2"},
                                                   {"hidden", "8"},
                                                   {"heads", "2"},
                                                   {"ffn", "32"},
                                                   {"vocab", "16"},
                                                   {"sequence", "4"},
                                                   {"tied_embeddings", "true"},
                                                   {"global_batch", "2"},
                                                   {"source", "\"a test\""}};

// One "key": value per line; `changes` with an empty value drop the key.
std::string document(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> fields = kValid;
  for (const auto& [key, value] : changes) fields[key] = value;
  std::string text = "{";
  for (const auto& [key, value] : fields) {
    if (!value.empty()) text += (text == "{" ? "\n\"" : ",\n\"") + key + "\": " + value;
  }
  return text + "}";
}

std::string parse_error(const std::map<std::string, std::string>& changes) {
  return message_of([&] { parse_model(document(changes), "m.json"); });
}

TEST(ModelCatalogue, HoldsTheNamedModelsBySize) {
  std::vector<std::string> names;
  for (const ModelConfig& model : model_catalogue()) names.push_back(model.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tiny-hybrid",
                                             "tiny-mamba",
                                             "tiny-bloom",
                                             "tiny-bert",
                                             "tiny-bert-published",
                                             "tiny-latent",
                                             "tiny-jamba",
                                             "tiny-kimi",
                                             "tiny-neox",
                                             "tiny-lfm2",
                                             "tiny-switch",
                                             "tiny-mla",
                                             "tiny-cohere2",
                                             "tiny-granite",
                                             "tiny-llama",
                                             "tiny-dsa",
                                             "tiny-oss",
                                             "tiny-gpt-oss",
                                             "tiny-modernbert",
                                             "tiny-blender",
                                             "tiny-gemma",
                                             "tiny-falcon",
                                             "tiny-qwen-moe",
                                             "tiny-olmo2",
                                             "tiny-gpt",
                                             "tiny-deepseek",
                                             "tiny-vision",
                                             "tiny-t5",
                                             "tiny-moe",
                                             "tiny-delta",
                                             "t5-small",
                                             "flan-t5-small",
                                             "bert-base",
                                             "gpt2-124m",
                                             "t5-base",
                                             "flan-t5-base",
                                             "bert-large",
                                             "gpt2-355m",
                                             "qwen2.5-0.5b",
                                             "qwen3-0.6b",
                                             "t5-large",
                                             "gpt2-774m",
                                             "flan-t5-large",
                                             "gemma3-1b",
                                             "llama3.2-1b",
                                             "opt-1.3b",
                                             "pythia-1.4b",
                                             "gpt2-1.5b",
                                             "blenderbot-3b",
                                             "flan-t5-xl",
                                             "t5-3b",
                                             "phi3-mini",
                                             "gemma3-4b",
                                             "llama2-7b",
                                             "pythia-6.9b",
                                             "mistral-7b",
                                             "qwen2.5-7b",
                                             "llama3-8b",
                                             "qwen3-8b",
                                             "gemma2-9b",
                                             "blenderbot-9b",
                                             "zero-infinity-10b",
                                             "flan-t5-xxl",
                                             "t5-11b",
                                             "gemma3-12b",
                                             "pythia-12b",
                                             "llama2-13b",
                                             "gpt-350m-moe128",
                                             "qwen1.5-moe-a2.7b",
                                             "phi4",
                                             "gpt-neox-20b",
                                             "gpt-oss-20b",
                                             "megatron-22b",
                                             "gemma3-27b",
                                             "gemma2-27b",
                                             "opt-30b",
                                             "qwen3-30b-a3b",
                                             "llama-33b",
                                             "mixtral-8x7b",
                                             "zero-infinity-50b",
                                             "gpt-1.3b-moe128",
                                             "qwen2-57b-a14b",
                                             "llama-65b",
                                             "llama2-70b",
                                             "llama3-70b",
                                             "qwen2.5-72b",
                                             "zero-infinity-100b",
                                             "glm-4.5-air",
                                             "llama4-scout",
                                             "gpt-oss-120b",
                                             "mixtral-8x22b",
                                             "gpt3-175b",
                                             "opt-175b",
                                             "megatron-175b",
                                             "bloom-176b",
                                             "minimax-m2",
                                             "qwen3-235b-a22b",
                                             "deepseek-v2",
                                             "glm-4.5",
                                             "llama4-maverick",
                                             "llama3-405b",
                                             "zero-infinity-0.5t",
                                             "megatron-530b",
                                             "deepseek-v3",
                                             "deepseek-v3.2",
                                             "glm-5",
                                             "zero-infinity-1t",
                                             "megatron-1t",
                                             "kimi-k2",
                                             "zero-infinity-5t",
                                             "zero-infinity-10t",
                                             "zero-infinity-20t",
                                             "zero-infinity-32t"}));
}

TEST(ModelConfig, ExpertsHaveBiasesWhereAllLinearLayersHaveThem) {
  const ModelConfig model = load_model("gpt-oss-20b");
  EXPECT_EQ(model.expert_bias_width(), 3 * 2880);
  ModelConfig other = model;
  other.biases = Biases::kQkv;
  EXPECT_EQ(other.expert_bias_width(), 0);
  EXPECT_EQ(parameter_count(model) - parameter_count(other), 24 * (2880 + 32 + 32 * 3 * 2880));
  EXPECT_EQ(active_parameter_count(model) - active_parameter_count(other),
            24 * (2880 + 32 + 4 * 3 * 2880));
  other.experts->shared_ffn = 8;
  EXPECT_NO_THROW(validate(other));
  other.biases = Biases::kAll;
  EXPECT_THAT(message_of([&] { validate(other); }),
              ::testing::HasSubstr("expected no shared_expert_ffn with biases \"all\""));
  other.experts->shared_ffn = 0;
  other.experts->selection_bias = true;
  EXPECT_THAT(message_of([&] { validate(other); }),
              ::testing::HasSubstr("expected no router_bias"));
}

TEST(ModelConfig, ModulesOfMultiTokenPredictionStandBehindTheLayers) {
  using ::testing::HasSubstr;
  std::map<std::string, std::string> two{{"position", "\"none\""}, {"mtp_layers", "2"}};
  EXPECT_EQ(parse_model(document(two), "m.json").mtp_layers, 2);
  EXPECT_EQ(parse_model(document(two), "m.json").mtp_loss, kUsualMtpLoss);
  two["mtp_loss"] = "0.3";
  EXPECT_EQ(parse_model(document(two), "m.json").mtp_loss, 0.3);
  EXPECT_THAT(parse_error({{"mtp_loss", "0.3"}}),
              HasSubstr("/mtp_loss: expected no mtp_loss without mtp_layers"));
  EXPECT_THAT(parse_error({{"mtp_layers", "17"}}), HasSubstr("/mtp_layers"));
  EXPECT_THAT(parse_error({{"mtp_layers", "1"}}),
              HasSubstr("/mtp_layers: expected no mtp_layers with position \"learned\""));
  two["bidirectional"] = "true";
  EXPECT_THAT(parse_error(two), HasSubstr("/bidirectional: expected no bidirectional with mtp"));
}

TEST(ModelConfig, AnEncoderIsTheFirstLayersOfAModel) {
  using ::testing::HasSubstr;
  ModelConfig model = load_model("blenderbot-3b");
  EXPECT_EQ(model.layers, 26);
  EXPECT_EQ(model.encoder_layers, 2);
  const ModelConfig first = plain_layers_of(model);
  EXPECT_TRUE(first.layer.bidirectional);
  EXPECT_EQ(first.encoder_layers, 0);
  EXPECT_THAT(parse_error({{"encoder_layers", "0"}}), HasSubstr("/encoder_layers"));
  EXPECT_THAT(parse_error({{"encoder_layers", "10000"}}),
              HasSubstr("/encoder_layers: expected less than the"));
  EXPECT_THAT(parse_error({{"encoder_layers", "1"}, {"bidirectional", "true"}}),
              HasSubstr("/bidirectional: expected no bidirectional with encoder_layers"));
  EXPECT_THAT(parse_error({{"position", "\"none\""}, {"segments", "2"}}),
              HasSubstr("/segments: expected no segments without learned positions"));
  EXPECT_THAT(parse_error({{"encoder_layers", "1"}, {"segments", "2"}}),
              HasSubstr("/segments: expected no segments with encoder_layers"));
  EXPECT_THAT(parse_error({{"parallel_residual", "\"one_norm\""}, {"residual_of_norm", "true"}}),
              HasSubstr("/residual_of_norm: expected no residual_of_norm with a parallel"));
  std::map<std::string, std::string> relative{
      {"encoder_layers", "1"}, {"position", "\"none\""}, {"relative_buckets", "8"}};
  EXPECT_EQ(parse_model(document(relative), "m.json").layer.relative_distance, 128);
  relative["relative_buckets"] = "6";
  EXPECT_THAT(parse_error(relative),
              HasSubstr("/relative_buckets: expected a multiple of 4 buckets, got 6"));
  relative.insert({"relative_distance", "4"});
  relative["relative_buckets"] = "8";
  EXPECT_THAT(parse_error(relative),
              HasSubstr("/relative_distance: expected more than 4, half of the buckets, got 4"));
  EXPECT_THAT(parse_error({{"encoder_layers", "1"}, {"relative_buckets", "8"}}),
              HasSubstr("/relative_buckets: expected no relative_buckets with position \"learned"));
  EXPECT_THAT(parse_error({{"position", "\"none\""}, {"relative_buckets", "8"}}),
              HasSubstr("/relative_buckets: expected relative_buckets with encoder_layers only"));
  EXPECT_THAT(parse_error({{"relative_distance", "64"}}),
              HasSubstr("expected no relative_distance without relative_buckets"));
  EXPECT_THAT(parse_error({{"encoder_layers", "1"}, {"qk_norm", "true"}}),
              HasSubstr("/qk_norm: expected no qk_norm with encoder_layers"));
  model.layer.window = 5;
  EXPECT_THAT(message_of([&] { validate(model); }), HasSubstr("expected no window with"));
}

TEST(ModelConfig, LimitAndOffsetAreOfAGatedMlp) {
  const ModelConfig model = load_model("gpt-oss-120b");
  EXPECT_EQ(model.layer.activation, Activation::kQuickGelu);
  EXPECT_EQ(model.layer.activation_limit, 7'000'000'000);
  EXPECT_EQ(model.layer.up_offset, 1);
  EXPECT_THAT(parse_error({{"activation_limit", "0.5"}}),
              ::testing::HasSubstr("/activation_limit: expected no activation_limit without"));
  EXPECT_THAT(parse_error({{"up_offset", "1"}}),
              ::testing::HasSubstr("/up_offset: expected no up_offset without gated_mlp"));
  EXPECT_THAT(parse_error({{"gated_mlp", "true"}, {"activation_limit", "0"}}),
              ::testing::HasSubstr("/activation_limit"));
}

// What the parser says of a small model with these members.
std::string refusal_of_experts(const std::string& members) {
  try {
    parse_model(R"({"schema": "zplan.model/1", "name": "m", "layers": 4, "hidden": 64, "heads": 4,
                    "ffn": 128, "vocab": 256, "sequence": 32, "tied_embeddings": false,
                    "global_batch": 8, "biases": "none", "source": "a test", )" +
                    members + "}",
                "m.json");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ModelConfig, ExpertsStandInEverySoManyLayersAfterTheFirst) {
  const ModelConfig model = load_model("llama4-maverick");
  EXPECT_FALSE(model.experts->is_in(0));
  EXPECT_TRUE(model.experts->is_in(1));
  EXPECT_FALSE(model.experts->is_in(46));
  EXPECT_TRUE(model.experts->is_in(47));
  EXPECT_EQ(model.expert_layers(), 24);
  EXPECT_EQ(model.dense_layers(), 24);
  EXPECT_EQ(model.kind_layers(), 2);
  EXPECT_EQ(model.first_layers(), 0);
  const ModelConfig behind = load_model("deepseek-v3");
  EXPECT_FALSE(behind.experts->is_in(2));
  EXPECT_TRUE(behind.experts->is_in(3));
  EXPECT_EQ(behind.expert_layers(), 58);
  EXPECT_EQ(behind.dense_layers(), 3);
  EXPECT_EQ(behind.first_layers(), 3);
}

TEST(ModelConfig, ExpertsThatContradictOneAnotherAreRefusedWhereTheyStand) {
  using ::testing::HasSubstr;
  EXPECT_EQ(refusal_of_experts(R"("experts": 4, "experts_per_token": 2)"), "");
  EXPECT_THAT(refusal_of_experts(R"("experts": 4)"), HasSubstr("experts_per_token"));
  EXPECT_THAT(refusal_of_experts(R"("experts_per_token": 2)"),
              HasSubstr("no experts_per_token without experts"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "router_groups": 2)"),
              HasSubstr("router_groups_per_token"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "router_groups": 3,
                                    "router_groups_per_token": 1)"),
              HasSubstr("expected equal groups of the 4 experts, got 3"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "router_groups": 2,
                                    "router_groups_per_token": 3)"),
              HasSubstr("expected at most 2, the groups that there are, got 3"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 3, "router_groups": 2,
                                    "router_groups_per_token": 1)"),
              HasSubstr("expected at most the 2 experts of 1 groups, got 3"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 5)"),
              HasSubstr("expected at most 4, the experts that there are, got 5"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4097, "experts_per_token": 5)"), HasSubstr("4096"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "dense_layers": 4)"),
              HasSubstr("expert_ffn"));
  EXPECT_THAT(refusal_of_experts(
                  R"("experts": 4, "experts_per_token": 1, "dense_layers": 4, "expert_ffn": 8)"),
              HasSubstr("expected less than the 4 layers"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "expert_ffn": 8)"),
              HasSubstr("no expert_ffn without dense_layers or expert_every"));
  EXPECT_THAT(
      refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "router_bias_rate": 0.001)"),
      HasSubstr("/router_bias_rate: expected no router_bias_rate without router_bias"));
  const std::string in_turn = R"("experts": 4, "experts_per_token": 1, "expert_ffn": 8, )";
  EXPECT_EQ(refusal_of_experts(in_turn + R"("expert_every": 2)"), "");
  EXPECT_EQ(refusal_of_experts(in_turn + R"("expert_every": 4, "dense_layers": 3)"), "");
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "expert_every": 2)"),
              HasSubstr("expert_ffn"));
  EXPECT_THAT(refusal_of_experts(in_turn + R"("expert_every": 0)"), HasSubstr("expert_every"));
  EXPECT_THAT(refusal_of_experts(in_turn + R"("expert_every": 3)"),
              HasSubstr("/expert_every: expected whole turns in the 4 layers, got turns of 3"));
  EXPECT_THAT(refusal_of_experts(in_turn + R"("expert_every": 2, "dense_layers": 2)"),
              HasSubstr("/dense_layers: expected less than the 2 layers of a turn"));
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "balance_loss": -1)"),
              HasSubstr("-1"));
  EXPECT_EQ(
      refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "activation": "gelu_tanh")"), "");
  EXPECT_EQ(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "activation": "relu")"),
            "");
  EXPECT_THAT(refusal_of_experts(R"("experts": 4, "experts_per_token": 1, "post_norms": true)"),
              HasSubstr("expected no post_norms with experts"));
}

TEST(ModelCatalogue, NamesAndAliasesAreUnique) {
  std::set<std::string> seen;
  for (const ModelConfig& model : model_catalogue()) {
    EXPECT_TRUE(seen.insert(to_lower(model.name)).second) << model.name;
    for (const std::string& alias : model.aliases) {
      EXPECT_TRUE(seen.insert(to_lower(alias)).second) << alias;
    }
  }
}

TEST(ModelCatalogue, EveryNumberHasASource) {
  for (const ModelConfig& model : model_catalogue()) {
    for (const char* field : {"layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "sequence",
                              "rope_theta", "tied_embeddings", "global_batch"}) {
      EXPECT_FALSE(model.source_of(field).empty()) << model.name << ' ' << field;
    }
    EXPECT_NO_THROW(validate(model));
  }
  EXPECT_TRUE(load_model("1T").source_of("vocab").starts_with("assumed"));
  EXPECT_EQ(load_model("1T").source_of("layers"), load_model("1T").source);
}

TEST(ParseModel, ReadsFeaturesOfLayers) {
  const ModelConfig model = parse_model(document({{"position", "\"rope\""},
                                                  {"rope_theta", "10000"},
                                                  {"local_rope_theta", "100"},
                                                  {"rotary_size", "2"},
                                                  {"rope_stretch", "8"},
                                                  {"activation", "\"relu\""},
                                                  {"parallel_residual", "\"one_norm\""},
                                                  {"embedding_norm", "true"},
                                                  {"norm_epsilon", "1e-6"},
                                                  {"window", "3"},
                                                  {"window_layers", "5"},
                                                  {"full_layers", "1"},
                                                  {"attention_cap", "50"},
                                                  {"logit_cap", "30"}}),
                                        "m.json");
  EXPECT_EQ(model.layer.activation, Activation::kRelu);
  EXPECT_EQ(model.layer.parallel_residual, ParallelResidual::kOneNorm);
  EXPECT_EQ(model.layer.norm_epsilon, 1'000'000);
  EXPECT_EQ(model.layer.turn_layers(), 6);
  EXPECT_EQ(model.layer.window_of(4), 3);
  EXPECT_EQ(model.layer.window_of(5), 0);
  EXPECT_EQ(shown_features(model.layer).size(), 12U);
  EXPECT_EQ(parse_model(document({}), "m.json").layer, LayerFeatures{});
  EXPECT_TRUE(shown_features(LayerFeatures{}).empty());
}

TEST(ParseModel, KeepsFactorsAsDecimalNumbers) {
  const ModelConfig model = parse_model(document({{"biases", "\"none\""},
                                                  {"residual_factor", "0.22"},
                                                  {"logit_divisor", "1.2"},
                                                  {"embedding_square", "144"}}),
                                        "m.json");
  EXPECT_EQ(model.layer.residual_factor, 220'000'000);
  EXPECT_EQ(model.layer.logit_divisor, 1'200'000'000);
  const std::vector<std::pair<std::string_view, FeatureValue>> shown{
      {"embedding_square", std::int64_t{144}}, {"residual_factor", 0.22}, {"logit_divisor", 1.2}};
  EXPECT_EQ(shown_features(model.layer), shown);
}

TEST(ParseModel, TurnsMayBeginWithLayersWithoutAWindowAndEndWithOneWithoutPositions) {
  const ModelConfig model = load_model("tiny-modernbert");
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < 4; ++i) windows.push_back(model.layer.window_of(i));
  EXPECT_EQ(windows, (std::vector<std::int64_t>{0, 5, 5, 0}));
  LayerFeatures layer = load_model("tiny-cohere2").layer;
  layer.unturned_every = 3;
  EXPECT_EQ(layer.turn_layers(), 6) << "turns of 2 and of 3";
  EXPECT_TRUE(layer.turns(1));
  EXPECT_FALSE(layer.turns(5));
}

// Each counted by hand [derived]: h = 64, 4 heads of 16, f = 128, V = 256, 4 layers with a gate.
TEST(ParameterCount, OfNormsBiasesAndHeadsOfLaterFamilies) {
  constexpr std::int64_t kMatrices = 64 * 192 + 64 * 64 + 3 * 64 * 128, kTable = 256 * 64;
  const auto count = [](const char* name) { return parameter_count(load_model(name)); };
  EXPECT_EQ(count("tiny-olmo2"), 4 * (kMatrices + 2 * 64 + 2 * 64) + 2 * kTable + 64)
      << "two norms behind branches, those of queries and keys over all heads";
  EXPECT_EQ(count("tiny-cohere2"), 4 * (kMatrices + 64) + kTable + 64) << "one norm without a bias";
  EXPECT_EQ(count("tiny-granite"), 4 * (kMatrices + 2 * 64) + kTable + 64);
  EXPECT_EQ(count("tiny-modernbert"),
            4 * (kMatrices + 2 * 64) - 64 + kTable + 64 + 64 + 64 * 64 + 64 + 256)
      << "no first norm; one of embeddings; a head of a product, a norm and a bias";
  ModelConfig model = load_model("tiny-olmo2");
  model.biases = Biases::kAttention;
  model.norm = Norm::kLayerNormFixed;
  model.layer = {};
  model.qk_norm = false;
  model.layer.head_bias = true;
  EXPECT_EQ(parameter_count(model), 4 * (kMatrices + 192 + 64) + 2 * kTable + 256);
}

TEST(ParseModel, RefusesFeaturesThatDoNotGoTogetherInOneLine) {
  using Changes = std::map<std::string, std::string>;
  for (const auto& [changes, words] : std::vector<std::pair<Changes, std::string>>{
           {{{"full_layers", "1"}}, "/full_layers: expected layers in turns with a window only"},
           {{{"window_layers", "2"}}, "/window_layers: expected layers in turns"},
           {{{"window", "4"}, {"window_layers", "16"}, {"full_layers", "1"}},
            "/full_layers: expected turns of up to 16 layers, got 17"},
           {{{"window", "0"}}, "/window: expected an integer from 1"},
           {{{"rotary_size", "2"}}, "/rotary_size: expected no rotary_size without rotary"},
           {{{"position", "\"rope\""}, {"rope_theta", "10000"}, {"rotary_size", "6"}},
            "/rotary_size: expected an even size of up to 4, the head's, got 6"},
           {{{"rope_stretch", "2"}}, "/rope_stretch: expected no rope_stretch without rotary"},
           {{{"position", "\"rope\""}, {"rope_theta", "10000"}, {"local_rope_theta", "100"}},
            "/local_rope_theta: expected a local_rope_theta with rotary positions and a window"},
           {{{"position", "\"alibi\""}, {"unused_positions", "2"}},
            "/unused_positions: expected no unused_positions without learned positions"},
           {{{"post_norms", "true"}}, "/post_norms: expected biases \"none\" or \"qkv\""},
           {{{"post_norms", "true"},
             {"biases", "\"none\""},
             {"parallel_residual", "\"two_norms\""}},
            "/post_norms: expected no post_norms with a parallel residual"},
           {{{"full_layers_first", "true"}, {"window", "4"}},
            "/full_layers_first: expected full_layers_first with full_layers only"},
           {{{"unturned_every", "2"}},
            "/unturned_every: expected no unturned_every without rotary"},
           {{{"position", "\"rope\""},
             {"window", "4"},
             {"window_layers", "2"},
             {"full_layers", "1"},
             {"unturned_every", "7"}},
            "/full_layers: expected turns of up to 16 layers, got 21"},
           {{{"only_post_norms", "true"}}, "/only_post_norms: expected biases \"none\" or \"qkv\""},
           {{{"only_post_norms", "true"}, {"biases", "\"none\""}, {"post_norms", "true"}},
            "/only_post_norms: expected post_norms or only_post_norms, got both"},
           {{{"only_post_norms", "true"}, {"biases", "\"none\""}, {"residual_of_norm", "true"}},
            "/only_post_norms: expected no only_post_norms with residual_of_norm"},
           {{{"residual_factor", "0.5"}, {"biases", "\"attention\""}},
            "/residual_factor: expected biases \"none\" or \"qkv\" with a residual_factor"},
           {{{"bare_first_branch", "true"}, {"parallel_residual", "\"one_norm\""}},
            "/bare_first_branch: expected no bare_first_branch with"},
           {{{"whole_qk_norm", "true"}},
            "/whole_qk_norm: expected whole_qk_norm with qk_norm only"},
           {{{"embedding_square", "4"}, {"scaled_embedding", "true"}},
            "/embedding_square: expected embedding_square or scaled_embedding, got both"},
           {{{"logit_divisor", "4"}, {"scaled_logits", "true"}},
            "/logit_divisor: expected logit_divisor or scaled_logits, got both"},
           {{{"head_bias", "true"}, {"head_transform", "true"}},
            "/head_bias: expected no head_bias with head_transform"},
           {{{"norm", "\"layernorm_nobias\""}}, "/norm: expected"},
           {{{"bidirectional", "true"}, {"position", "\"alibi\""}},
            "/bidirectional: expected no bidirectional with position \"alibi\""},
           {{{"activation", "\"gelu_tan\""}}, "/activation: expected"},
           {{{"norm_epsilon", "0"}}, "/norm_epsilon: expected"},
           {{{"norm_epsilon", "\"1e-6\""}}, "/norm_epsilon: expected a number"},
           {{{"biases", "\"none\""},
             {"kv_lora_rank", "4"},
             {"qk_nope_head_size", "4"},
             {"qk_rope_head_size", "2"},
             {"v_head_size", "4"},
             {"attention_sinks", "true"}},
            "/attention_sinks: expected no attention_sinks with kv_lora_rank"}}) {
    const std::string message = parse_error(changes);
    EXPECT_NE(message.find(words), message.npos) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
  }
}

TEST(LoadModel, FindsNamesAndAliasesInAnyCase) {
  for (const auto& [text, name] : std::map<std::string, std::string>{{"1T", "zero-infinity-1t"},
                                                                     {"1t", "zero-infinity-1t"},
                                                                     {"10B", "zero-infinity-10b"},
                                                                     {"175b", "gpt3-175b"},
                                                                     {"GPT2", "gpt2-124m"},
                                                                     {"Tiny", "tiny-gpt"},
                                                                     {"gpt2-xl", "gpt2-1.5b"},
                                                                     {"350M", "gpt2-355m"},
                                                                     {"gpt2-large", "gpt2-774m"},
                                                                     {"llama-3-8B", "llama3-8b"},
                                                                     {"Llama3-70B", "llama3-70b"},
                                                                     {"22B", "megatron-22b"},
                                                                     {"530B", "megatron-530b"},
                                                                     {"0.5T", "zero-infinity-0.5t"},
                                                                     {"20T", "zero-infinity-20t"},
                                                                     {"32T", "zero-infinity-32t"},
                                                                     {"GPT2-124M", "gpt2-124m"}}) {
    EXPECT_EQ(load_model(text).name, name) << text;
  }
}

TEST(LoadModel, KnowsThePublishedShapes) {
  const ModelConfig model = load_model("1T");
  EXPECT_EQ(model.layers, 128);
  EXPECT_EQ(model.hidden, 25600);
  EXPECT_EQ(model.heads, 256);
  EXPECT_EQ(model.head_size(), 100);
  EXPECT_EQ(model.sequence, 1024);
  EXPECT_EQ(model.global_batch, 2560);
  EXPECT_EQ(load_model("gpt2").global_batch, 512);
  EXPECT_EQ(load_model("tiny").vocab, 256);
  EXPECT_EQ(load_model("gpt2").position, Position::kLearned);
  EXPECT_EQ(load_model("gpt2").norm, Norm::kLayerNorm);
  EXPECT_EQ(load_model("gpt2").biases, Biases::kAll);
  EXPECT_FALSE(load_model("gpt2").gated_mlp);
  EXPECT_EQ(load_model("gpt2").kv_heads, 12);
  EXPECT_EQ(load_model("gpt2").qkv_width(), 3 * 768);
  EXPECT_EQ(load_model("gpt2").up_width(), 4 * 768);
}

TEST(LoadModel, KnowsTheLlamaShapes) {
  const ModelConfig model = load_model("llama3-70b");
  EXPECT_EQ(model.position, Position::kRope);
  EXPECT_EQ(model.norm, Norm::kRmsNorm);
  EXPECT_EQ(model.biases, Biases::kNone);
  EXPECT_TRUE(model.gated_mlp);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.rope_theta, 500'000);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_EQ(model.qkv_width(), 8192 + 2 * 1024);
  EXPECT_EQ(model.up_width(), 2 * 28672);
  EXPECT_EQ(load_model("tiny-llama").kv_heads, 2);
}

// [Rajbhandari21 Table 1]: sequences per GPU x GPUs.
TEST(LoadModel, KnowsTheBatchesOfZeroInfinity) {
  const std::map<std::string, double> per_gpu = {
      {"0.5T", 7}, {"1T", 5}, {"5T", 3}, {"10T", 2}, {"20T", 1.25}};
  for (const auto& [name, batch] : per_gpu) {
    EXPECT_EQ(static_cast<double>(load_model(name).global_batch), batch * 512) << name;
  }
  EXPECT_EQ(load_model("10B").global_batch, 8 * 16);
  EXPECT_EQ(load_model("50B").global_batch, 26 * 16);
  EXPECT_EQ(load_model("100B").global_batch, 24 * 16);
}

TEST(LoadModel, UnknownNameShowsTheNearestOnOneLine) {
  const std::string message = message_of([] { load_model("gtp2"); });
  EXPECT_TRUE(message.starts_with("unknown model \"gtp2\"; did you mean \"gpt2\"? (known: "))
      << message;
  EXPECT_EQ(message_of([] { load_model("a\nb"); }).find('\n'), std::string::npos);
}

TEST(LoadModel, MakesAGptOfASize) {
  const ModelConfig model = load_model("12b");
  EXPECT_NEAR(static_cast<double>(parameter_count(model)), 12e9, 0.02 * 12e9);
  EXPECT_EQ(model.name, "12b");
  EXPECT_EQ(model.global_batch, 512);
  EXPECT_TRUE(model.source.starts_with("of no paper: ")) << model.source;
  EXPECT_EQ(load_model("1T").name, "zero-infinity-1t") << "names of the catalogue come first";
  EXPECT_EQ(load_model("13b").name, "llama2-13b") << "and sizes that published models have";
  EXPECT_TRUE(message_of([] { load_model("20M"); }).starts_with("model \"20M\": expected a size"));
  for (const char* const odd : {"B", "1..3B", "-1B", "1e3B", "3BB", "0B"})
    EXPECT_TRUE(message_of([&] { load_model(odd); }).starts_with("unknown model")) << odd;
}

TEST(ModelTemplate, ReadsBackAsEveryModelOfTheCatalogue) {
  std::vector<ModelConfig> models = model_catalogue();
  models.push_back(load_model("12B"));
  for (const ModelConfig& model : models) {
    const ModelConfig again = parse_model(model_template(model), model.name);
    const auto fields = fields_of(model), others = fields_of(again);
    ASSERT_EQ(others.size(), fields.size()) << model.name;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      EXPECT_EQ(others[i].name, fields[i].name) << model.name;
      EXPECT_EQ(others[i].value, fields[i].value) << model.name << " " << fields[i].name;
    }
    EXPECT_EQ(again.name, model.name);
    EXPECT_EQ(again.aliases, model.aliases);
    EXPECT_EQ(again.architecture, model.architecture);
    EXPECT_EQ(again.own_head_size, model.own_head_size);
    EXPECT_EQ(again.source, model.source);
    EXPECT_EQ(again.field_sources, model.field_sources);
    EXPECT_EQ(parameter_count(again), parameter_count(model));
  }
}

TEST(LoadModel, ReadsAFile) {
  const std::string path = testing::TempDir() + "/model_config_test.json";
  std::ofstream(path) << document({});
  EXPECT_EQ(load_model(path).name, "m");
  std::filesystem::remove(path);
  EXPECT_EQ(message_of([&] { load_model(path); }),
            path + ": cannot read the file: No such file or directory");
}

TEST(ParseModel, ReadsSourcesOfFields) {
  const ModelConfig model =
      parse_model(document({{"sources", "{\"vocab\": \"guess\"}"}, {"aliases", "[\"x\"]"}}), "m");
  EXPECT_EQ(model.source_of("vocab"), "guess");
  EXPECT_EQ(model.source_of("hidden"), "a test");
  EXPECT_EQ(model.aliases, std::vector<std::string>{"x"});
}

TEST(ParseModel, WhatAFileMayLeaveOutHasASourceThatSaysSo) {
  const ModelConfig gpt = parse_model(
      document({{"ffn", ""}, {"global_batch", ""}, {"tied_embeddings", ""}, {"source", ""}}), "m");
  EXPECT_EQ(gpt.ffn, 32);
  EXPECT_EQ(gpt.global_batch, 512);
  EXPECT_TRUE(gpt.tied_embeddings);
  EXPECT_EQ(gpt.source, "stated in the file");
  for (const char* const field : {"ffn", "global_batch", "tied_embeddings"})
    EXPECT_TRUE(gpt.source_of(field).starts_with("not in the file: ")) << field;
  const ModelConfig llama =
      parse_model(document({{"architecture", "\"llama\""},
                            {"kv_heads", "1"},
                            {"tied_embeddings", ""},
                            {"sources", "{\"rope_theta\": \"their paper\"}"}}),
                  "m");
  EXPECT_EQ(llama.rope_theta, 10'000);
  EXPECT_EQ(llama.source_of("rope_theta"), "their paper");
  EXPECT_FALSE(llama.tied_embeddings);
  EXPECT_EQ(message_of([] {
              parse_model(R"({"schema": "zplan.model/1", "architecture": "llama", "hiden": 1})",
                          "m");
            }),
            "m:1:1: /: expected key \"hidden\", got \"hiden\" instead; "
            "m:1:1: /: expected keys \"name\", \"layers\", \"heads\", \"ffn\", \"vocab\", "
            "\"sequence\", \"kv_heads\", got an object without them");
}

TEST(ParseModel, DefectsAreNamedWithTheirPlace) {
  EXPECT_EQ(parse_error({{"layers", ""}}),
            "m.json:1:1: /: expected key \"layers\", got an object without it");
  EXPECT_EQ(parse_error({{"layers", ""}, {"layer", "2"}}),
            "m.json:1:1: /: expected key \"layers\", got \"layer\" instead");
  EXPECT_EQ(parse_error({{"hidden", "0"}}),
            "m.json:5:11: /hidden: expected an integer from 1 to 1048576, got number 0");
  EXPECT_EQ(parse_error({{"hidden", "\"8\""}}),
            "m.json:5:11: /hidden: expected an integer from 1 to 1048576, got string \"8\"");
  EXPECT_EQ(parse_error({{"heads", "3"}}),
            "m.json:4:10: /heads: expected heads to divide hidden, got 3 heads and hidden 8");
  EXPECT_EQ(parse_error({{"layers", "10000"}, {"hidden", "1048576"}}),
            "m.json:6:11: /layers: expected at most 1e15 parameters, got 43981230594908672");
  EXPECT_EQ(
      parse_error({{"rope", "1"}}),
      "m.json:8:1: /rope: expected one of the keys \"schema\", \"name\", \"aliases\", "
      "\"sizes\", \"variants\", \"trained_positions\", "
      "\"architecture\", \"position\", \"norm\", \"biases\", \"gated_mlp\", \"qk_norm\", "
      "\"activation\", \"parallel_residual\", \"post_norms\", \"residual_of_norm\", "
      "\"embedding_norm\", "
      "\"scaled_embedding\", \"scaled_logits\", \"head_transform\", \"attention_sinks\", "
      "\"bidirectional\", \"only_post_norms\", \"whole_qk_norm\", \"head_bias\", "
      "\"full_layers_first\", \"bare_first_branch\", \"attention_gate\", \"attention_divisor\", "
      "\"attention_cap\", "
      "\"logit_cap\", \"window\", \"window_layers\", \"full_layers\", \"rotary_size\", "
      "\"rope_stretch\", \"local_rope_theta\", \"unused_positions\", \"up_offset\", "
      "\"segments\", \"relative_buckets\", \"relative_distance\", "
      "\"embedding_square\", \"unturned_every\", "
      "\"norm_epsilon\", \"activation_limit\", \"residual_factor\", \"logit_divisor\", "
      "\"layers\", \"hidden\", \"heads\", \"ffn\", \"vocab\", \"sequence\", \"global_batch\", "
      "\"tied_embeddings\", "
      "\"kv_lora_rank\", \"qk_nope_head_size\", \"qk_rope_head_size\", \"v_head_size\", "
      "\"q_lora_rank\", \"index_heads\", \"index_head_size\", \"index_keys\", "
      "\"kv_heads\", \"head_size\", \"encoder_layers\", \"mtp_layers\", "
      "\"mtp_loss\", \"rope_theta\", "
      "\"layer_pattern\", \"mamba_heads\", \"mamba_head_size\", \"mamba_groups\", "
      "\"mamba_state\", \"mamba_conv\", \"mamba_chunk\", \"mamba_norm\", \"mamba_z_factor\", "
      "\"mamba_x_factor\", \"mamba_b_factor\", \"mamba_c_factor\", \"mamba_dt_factor\", "
      "\"mamba_out_factor\", \"query_factor\", \"key_factor\", \"value_factor\", "
      "\"mlp_gate_factor\", \"mlp_up_factor\", \"delta_key_heads\", "
      "\"delta_value_heads\", \"delta_key_size\", \"delta_value_size\", \"delta_conv\", "
      "\"delta_chunk\", \"kda_heads\", \"kda_head_size\", \"kda_conv\", \"kda_chunk\", "
      "\"mamba1_inner\", \"mamba1_state\", \"mamba1_step_rank\", \"mamba1_conv\", "
      "\"short_conv_width\", \"short_conv_taps\", "
      "\"experts\", "
      "\"experts_per_token\", \"dense_layers\", \"expert_every\", \"expert_ffn\", "
      "\"shared_expert_ffn\", "
      "\"expert_latent_size\", \"router_groups\", \"router_groups_per_token\", "
      "\"router_scores\", \"shared_expert_gate\", \"router_renormalises\", "
      "\"router_bias\", \"router_scale\", "
      "\"balance_loss\", \"router_bias_rate\", "
      "\"vision_layers\", \"vision_hidden\", \"vision_heads\", \"vision_ffn\", "
      "\"vision_patch\", \"vision_patches\", \"vision_images\", \"vision_merge\", "
      "\"vision_positions\", \"vision_window\", \"vision_full_every\", "
      "\"vision_rms_norm\", \"vision_gated_mlp\", \"vision_biases\", "
      "\"vision_patch_bias\", \"vision_qk_norm\", \"vision_post_norms\", "
      "\"vision_embedding_norm\", \"vision_rope\", \"vision_projector\", "
      "\"source\", \"sources\", got "
      "unknown key "
      "\"rope\"");
  EXPECT_EQ(parse_error({{"sources", "{\"vocabs\": \"x\"}"}}),
            "m.json:11:13: /sources/vocabs: expected key \"vocab\", got unknown key \"vocabs\"");
}

std::map<std::string, std::string> llama(std::map<std::string, std::string> changes) {
  changes.insert({{"architecture", "\"llama\""}, {"kv_heads", "1"}, {"rope_theta", "10000"}});
  return changes;
}

TEST(ParseModel, ReadsBothArchitectures) {
  const ModelConfig gpt = parse_model(document({}), "m");
  EXPECT_EQ(gpt.architecture, Architecture::kGpt);
  EXPECT_EQ(gpt.kv_heads, gpt.heads);
  EXPECT_EQ(gpt.rope_theta, 0);
  EXPECT_EQ(parse_model(document({{"architecture", "\"gpt\""}, {"kv_heads", "1"}}), "m").kv_heads,
            1);

  const ModelConfig model = parse_model(document(llama({})), "m");
  EXPECT_EQ(model.architecture, Architecture::kLlama);
  EXPECT_EQ(model.kv_heads, 1);
  EXPECT_EQ(model.rope_theta, 10'000);
  EXPECT_EQ(model.qkv_width(), (2 + 2 * 1) * 4);
  EXPECT_EQ(model.up_width(), 64);
}

// Shapes that no architecture has.
TEST(ParseModel, SingleFeaturesOverrideThoseOfTheArchitecture) {
  const ModelConfig mpt = parse_model(document({{"biases", "\"none\""}}), "m");
  EXPECT_EQ(mpt.biases, Biases::kNone);
  EXPECT_EQ(mpt.norm, Norm::kLayerNorm);
  EXPECT_EQ(layer_parameter_count(mpt), layer_matmul_parameter_count(mpt) + 4 * mpt.hidden);

  const ModelConfig mixed = parse_model(document({{"position", "\"rope\""},
                                                  {"rope_theta", "10000"},
                                                  {"biases", "\"qkv\""},
                                                  {"norm", "\"rmsnorm\""},
                                                  {"gated_mlp", "true"},
                                                  {"head_size", "6"},
                                                  {"qk_norm", "true"},
                                                  {"kv_heads", "1"}}),
                                        "m");
  EXPECT_EQ(mixed.architecture, Architecture::kGpt);
  EXPECT_EQ(mixed.positions(), 0);
  EXPECT_EQ(mixed.attention_width(), 2 * 6);
  EXPECT_EQ(mixed.qkv_width(), (2 + 2 * 1) * 6);
  EXPECT_EQ(layer_matmul_parameter_count(mixed), 8 * 24 + 12 * 8 + 3 * 8 * 32);
  EXPECT_EQ(layer_parameter_count(mixed), layer_matmul_parameter_count(mixed) + 24 + 2 * 8 + 2 * 6);
  EXPECT_NO_THROW(validate(mixed));

  const ModelConfig none = parse_model(document({{"position", "\"none\""}}), "m");
  EXPECT_EQ(none.positions(), 0);
  EXPECT_EQ(parameter_count(parse_model(document({}), "m")) - parameter_count(none), 4 * 8);
}

TEST(ParseModel, DefectsOfAnArchitectureAreNamedWithTheirPlace) {
  EXPECT_EQ(parse_error({{"architecture", "\"bert\""}}),
            "m.json:2:17: /architecture: expected one of \"gpt\", \"llama\", got string \"bert\"");
  EXPECT_EQ(parse_error({{"position", "\"sines\""}}),
            "m.json:8:13: /position: expected one of \"none\", \"learned\", \"rope\", \"alibi\", "
            "got string "
            "\"sines\"");
  EXPECT_EQ(parse_error({{"head_size", "65536"}, {"heads", "32"}}),
            "m.json:5:10: /heads: expected heads times head_size up to 1048576, got 2097152");
  EXPECT_EQ(parse_error({{"rope_theta", "10000"}}),
            "m.json:8:15: /rope_theta: expected no rope_theta without rotary positions, got number "
            "10000");
  EXPECT_EQ(parse_error(llama({{"kv_heads", ""}})),
            "m.json:1:1: /: expected key \"kv_heads\", got an object without it");
  EXPECT_EQ(
      parse_error(llama({{"heads", "8"}, {"kv_heads", "3"}, {"hidden", "16"}})),
      "m.json:7:13: /kv_heads: expected kv_heads to divide heads, got 3 kv_heads and 8 heads");
  EXPECT_EQ(
      parse_error(llama({{"hidden", "6"}})),
      "m.json:5:10: /heads: expected an even head size, which rotary positions pair up, got 3");
}

std::map<std::string, std::string> latent(std::map<std::string, std::string> changes) {
  changes.insert({{"biases", "\"none\""},
                  {"kv_lora_rank", "5"},
                  {"qk_nope_head_size", "3"},
                  {"qk_rope_head_size", "2"},
                  {"v_head_size", "7"}});
  return changes;
}

TEST(ParseModel, ReadsLatentAttention) {
  const ModelConfig model = parse_model(document(latent({{"q_lora_rank", "4"}})), "m");
  EXPECT_EQ(model.latent->query_rank, 4);
  EXPECT_EQ(model.latent->key_value_rank, 5);
  EXPECT_EQ(model.head_size(), 5);
  EXPECT_EQ(model.value_size(), 7);
  EXPECT_EQ(model.attention_width(), 2 * 7);
  EXPECT_EQ(model.qkv_width(), 2 * (2 * 5 + 7));
  EXPECT_EQ(qkv_parameter_count(model), 4 * 2 * 5 + 5 * 2 * (3 + 7));
  EXPECT_EQ(layer_matmul_parameter_count(model),
            8 * (4 + 5 + 2) + qkv_parameter_count(model) + 14 * 8 + 2 * 8 * 32);
  EXPECT_EQ(layer_parameter_count(model), layer_matmul_parameter_count(model) + 4 * 8 + 4 + 5);
  EXPECT_EQ(
      parse_model(document(latent({{"architecture", "\"llama\""}, {"rope_theta", "10"}})), "m")
          .latent->query_rank,
      0);
  EXPECT_FALSE(parse_model(document({}), "m").latent);
}

TEST(ParseModel, DefectsOfLatentAttentionAreNamed) {
  const auto ends_with = [](const std::map<std::string, std::string>& changes,
                            const std::string& end) {
    const std::string error = parse_error(changes);
    EXPECT_TRUE(error.ends_with(end)) << error;
  };
  ends_with({{"q_lora_rank", "4"}}, "expected no q_lora_rank without kv_lora_rank, got number 4");
  ends_with(latent({{"v_head_size", ""}}),
            "expected key \"v_head_size\", got an object without it");
  ends_with(latent({{"kv_heads", "1"}}),
            "expected as many kv_heads as heads with a latent, got 1 kv_heads and 2 heads");
  ends_with(latent({{"qk_rope_head_size", "3"}}),
            "expected an even size, which rotary positions pair up, got 3");
  ends_with(latent({{"biases", "\"qkv\""}}), "expected biases \"none\" with a latent");
  ends_with(latent({{"qk_norm", "true"}}),
            "expected no qk_norm with a latent, which has norms of its own");
  ends_with(latent({{"head_size", "4"}}),
            "heads have qk_nope_head_size and qk_rope_head_size elements, got number 4");
}

TEST(ParseModel, AnIndexerStandsBesideALatentOfQueries) {
  const auto ends_with = [](std::map<std::string, std::string> changes, const std::string& end) {
    changes.insert({{"index_heads", "2"}, {"index_head_size", "8"}, {"index_keys", "4"}});
    const std::string error = parse_error(latent(changes));
    EXPECT_TRUE(error.ends_with(end)) << error;
  };
  ends_with({}, "expected no index_heads without q_lora_rank");
  ends_with({{"q_lora_rank", "4"}, {"index_head_size", ""}},
            "expected key \"index_head_size\", got an object without it");
  ends_with({{"q_lora_rank", "4"}, {"index_heads", ""}},
            "expected no index_head_size without index_heads, got number 8");
  ends_with({{"q_lora_rank", "4"},
             {"index_head_size", "1"},
             {"architecture", "\"llama\""},
             {"rope_theta", "10"}},
            "expected at least the 2 elements that turn with positions, got 1");
}

TEST(Validate, ChecksAConfigBuiltInMemory) {
  ModelConfig model = load_model("tiny");
  model.kv_heads = 0;
  EXPECT_EQ(message_of([&] { validate(model); }),
            "model \"tiny-gpt\": kv_heads: expected an integer from 1 to 65536, got 0");
  model.heads = 5;
  model.kv_heads = 5;
  EXPECT_EQ(message_of([&] { validate(model); }),
            "model \"tiny-gpt\": expected heads to divide hidden, got 5 heads and hidden 64");
  model.heads = 0;
  EXPECT_EQ(message_of([&] { validate(model); }),
            "model \"tiny-gpt\": heads: expected an integer from 1 to 65536, got 0");
}

TEST(Validate, AcceptsOnlyCountsThatStayInInt64) {
  ModelConfig model = load_model("tiny");
  model.layers = 1;
  model.hidden = 1 << 20;
  model.heads = 1;
  model.kv_heads = 1;
  model.ffn = 1 << 23;
  model.vocab = 1 << 24;
  model.sequence = 1 << 24;
  EXPECT_NO_THROW(validate(model));
  EXPECT_GT(model_flops_per_token(model).value, 0);
  set_architecture(model, Architecture::kLlama);
  model.rope_theta = 1;
  EXPECT_NO_THROW(validate(model));
  EXPECT_GT(model_flops_per_token(model).value, 0);
}

}  // namespace
}  // namespace zplan
