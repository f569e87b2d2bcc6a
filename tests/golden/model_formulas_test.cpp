// Counts and closed forms against published numbers and against each other.
#include "models/model_formulas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace zplan {
namespace {

ModelConfig shape(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab,
                  std::int64_t sequence) {
  ModelConfig model;
  model.name = "test";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.ffn = 4 * hidden;
  model.vocab = vocab;
  model.sequence = sequence;
  model.global_batch = 1;
  return model;
}

std::vector<ModelConfig> gpt_catalogue() {
  std::vector<ModelConfig> models = model_catalogue();
  std::erase_if(models, [](const ModelConfig& model) {
    return model.gated_mlp || model.position != Position::kLearned ||
           model.layer != LayerFeatures{} || model.encoder_layers > 0 || model.experts;
  });
  return models;
}

double billions(const ModelConfig& model) {
  return static_cast<double>(parameter_count(model)) / 1e9;
}

// Numbers in the published weights, which are files anybody can count.
TEST(ParameterCount, IsThatOfThePublishedWeights) {
  EXPECT_EQ(parameter_count(load_model("gpt2-124m")), 124'439'808);
  EXPECT_EQ(parameter_count(load_model("gpt2-355m")), 354'823'168);
  EXPECT_EQ(parameter_count(load_model("gpt2-774m")), 774'030'080);
  EXPECT_EQ(parameter_count(load_model("gpt2-1.5b")), 1'557'611'200);
  EXPECT_EQ(parameter_count(load_model("llama3-8b")), 8'030'261'248);
  EXPECT_EQ(parameter_count(load_model("llama3-70b")), 70'553'706'496);
  EXPECT_EQ(parameter_count(load_model("llama2-7b")), 6'738'415'616);
  EXPECT_EQ(parameter_count(load_model("llama2-13b")), 13'015'864'320);
  EXPECT_EQ(parameter_count(load_model("llama2-70b")), 68'976'648'192);
  EXPECT_EQ(parameter_count(load_model("llama-33b")), 32'528'943'616);
  EXPECT_EQ(parameter_count(load_model("llama-65b")), 65'285'660'672);
}

// Of experts all are in the weights; papers print what a token goes through, in billions.
TEST(ParameterCount, OfModelsWithExpertsIsThatOfThePublishedWeights) {
  EXPECT_EQ(parameter_count(load_model("mixtral-8x7b")), 46'702'792'704);
  EXPECT_EQ(parameter_count(load_model("mixtral-8x22b")), 140'620'634'112);
  EXPECT_EQ(parameter_count(load_model("qwen3-30b-a3b")), 30'532'122'624);
  EXPECT_EQ(parameter_count(load_model("deepseek-v2")), 235'741'434'880);
  EXPECT_EQ(parameter_count(load_model("deepseek-v3")), 671'026'419'200);
  EXPECT_EQ(parameter_count(load_model("deepseek-v3.2")), 671'877'944'064);
  EXPECT_EQ(parameter_count(load_model("glm-5")), 743'911'218'432);
  EXPECT_EQ(parameter_count(load_model("qwen3-235b-a22b")), 235'093'634'560);
  EXPECT_EQ(parameter_count(load_model("qwen1.5-moe-a2.7b")), 14'315'784'192);
  EXPECT_EQ(parameter_count(load_model("qwen2-57b-a14b")), 57'408'658'944);
  // The first two are 352,797,814,784 and 106,852,245,504 without the biases of their routers.
  EXPECT_EQ(parameter_count(load_model("glm-4.5")), 352'797'814'784 + 14'240);
  EXPECT_EQ(parameter_count(load_model("glm-4.5-air")), 106'852'245'504 + 5'760);
  EXPECT_EQ(parameter_count(load_model("minimax-m2")), 228'689'748'992 + 15'872);
  EXPECT_EQ(parameter_count(load_model("kimi-k2")), 1'026'408'232'448);
  EXPECT_EQ(parameter_count(load_model("gpt-oss-20b")), 20'914'757'184);
  EXPECT_EQ(parameter_count(load_model("gpt-oss-120b")), 116'829'156'672);
  const auto active = [](const char* name) {
    return static_cast<double>(active_parameter_count(load_model(name))) / 1e9;
  };
  EXPECT_NEAR(active("mixtral-8x7b"), 12.9, 0.05);  // "13B" in [Jiang24 Table 2]
  EXPECT_NEAR(active("mixtral-8x22b"), 39.1, 0.1);  // "39B"
  EXPECT_NEAR(active("qwen3-30b-a3b"), 3.3, 0.06);  // 3.3B in the model card
  EXPECT_NEAR(active("qwen3-235b-a22b"), 22, 0.5);  // 22B in [Yang25 Table 2]
  EXPECT_NEAR(active("kimi-k2"), 32.6, 0.4);        // 32.6B in [Kimi25 Table 2]
  EXPECT_NEAR(active("glm-4.5-air"), 12.8, 0.9);    // 12B in [Zeng25 Table 1], one embedding only
  EXPECT_NEAR(active("deepseek-v2"), 21, 0.5);      // 21B in [DeepSeek24]
  EXPECT_NEAR(active("deepseek-v3"), 37, 1);        // 37B in [DeepSeek25], one embedding only
}

// "11.5B unique parameters" of DeepSeek-V3's module, without the embedding and the head that it
// shares: README_WEIGHTS.md of the published weights [DeepSeek25]. Operations are those that
// Megatron's count adds: a layer, the matrix before it and the head once more [MegatronCore].
TEST(ParameterCount, OfAModuleOfMultiTokenPredictionIsThatOfThePublishedWeights) {
  const ModelConfig model = load_model("deepseek-v3");
  ModelConfig more = model;
  more.mtp_layers = 1;
  const std::int64_t h = model.hidden;
  EXPECT_EQ(parameter_count(more) - parameter_count(model),
            layer_parameter_count(model) + 2 * h * h + 3 * h);
  EXPECT_NEAR(static_cast<double>(parameter_count(more) - parameter_count(model)) / 1e9, 11.5, 0.2);
  const std::int64_t active =
      active_matmul_parameter_count(more) - active_matmul_parameter_count(model);
  const std::int64_t attention = 3 * (model.heads * model.head_size() + model.attention_width());
  EXPECT_EQ(model_flops_per_token(more).value - model_flops_per_token(model).value,
            6 * (active + model.vocab * h) + attention * model.sequence);
}

// Every second layer: [Rajbhandari22 Table 1] prints 13B and 52B, of which a token goes through as
// many as in the dense models of 350M and 1.3B, [Meta25] 400B and 17B.
TEST(ParameterCount, OfExpertsInEverySecondLayerIsThatOfItsParts) {
  const auto gpt = [](std::int64_t h, std::int64_t experts) {
    const std::int64_t attention = 4 * h * h + 4 * h, norms = 4 * h, mlp = 8 * h * h + 5 * h;
    const std::int64_t router = 128 * h + 128;
    return 24 * (attention + norms) + 12 * mlp + 12 * (router + experts * mlp) +
           (50'257 + 2'048) * h + 2 * h;
  };
  for (const auto& [name, h, all, active] :
       {std::tuple{"gpt-350m-moe128", 1024, 13.0, 0.35}, {"gpt-1.3b-moe128", 2048, 52.0, 1.3}}) {
    const ModelConfig model = load_model(name);
    EXPECT_EQ(parameter_count(model), gpt(h, 128)) << name;
    EXPECT_EQ(active_parameter_count(model), gpt(h, 1)) << name;
    EXPECT_NEAR(billions(model), all, 0.5) << name;
    EXPECT_NEAR(static_cast<double>(gpt(h, 1)) / 1e9, active, 0.05) << name;
  }
  const ModelConfig maverick = load_model("llama4-maverick");
  const std::int64_t h = 5120, expert = 3 * h * 8192;
  const auto parts = [&](std::int64_t experts) {
    return 48 * (h * (40 + 2 * 8) * 128 + 40 * 128 * h + 2 * h) + 24 * 3 * h * 16384 +
           24 * (h * 128 + (experts + 1) * expert) + 2 * 202'048 * h + h;
  };
  EXPECT_EQ(parameter_count(maverick), parts(128));
  EXPECT_EQ(active_parameter_count(maverick), parts(1));
  EXPECT_NEAR(billions(maverick), 400, 1);
  EXPECT_NEAR(static_cast<double>(parts(1)) / 1e9, 17, 0.5);
}

// [Agarwal25 Table 1] prints billions: 20.91 and 116.83 in all, 3.61 and 5.13 that a token goes
// through without the embedding, 19.12 and 114.71 in experts and routers with the norm before them,
// 0.64 and 0.96 in attention, and 1.16 in both embeddings.
TEST(ParameterCount, OfGptOssIsThatOfItsParts) {
  struct Printed {
    const char* name;
    double all, active, experts;
  };
  for (const auto& [name, all, active, experts] : {Printed{"gpt-oss-20b", 20.91, 3.61, 19.12},
                                                   Printed{"gpt-oss-120b", 116.83, 5.13, 114.71}}) {
    const ModelConfig model = load_model(name);
    const std::int64_t ends = 2 * model.vocab * model.hidden + model.hidden;
    const std::int64_t attention =
        model.layers * (model.hidden + (2880 + 1) * 5120 + (4096 + 1) * 2880 + 64);
    const auto in_billions = [](std::int64_t n) { return static_cast<double>(n) / 1e9; };
    EXPECT_NEAR(billions(model), all, 0.005);
    EXPECT_NEAR(in_billions(active_parameter_count(model) - model.vocab * model.hidden), active,
                0.005);
    EXPECT_NEAR(in_billions(parameter_count(model) - ends - attention), experts, 0.005);
    EXPECT_NEAR(in_billions(attention), model.layers == 24 ? 0.64 : 0.96, 0.005);
    EXPECT_NEAR(in_billions(ends), 1.16, 0.005);
  }
}

// The numbers that the pages of the published weights state; of Gemma 3 without its vision part, as
// the presets of keras-hub count it; of OPT-30B with the two rows of positions that no token has.
TEST(ParameterCount, OfLaterFamiliesIsThatOfThePublishedWeights) {
  EXPECT_EQ(parameter_count(load_model("gemma2-9b")), 9'241'705'984);
  EXPECT_EQ(parameter_count(load_model("gemma2-27b")), 27'227'128'320);
  EXPECT_EQ(parameter_count(load_model("gemma3-1b")), 999'885'952);
  EXPECT_EQ(parameter_count(load_model("gemma3-4b")), 3'880'099'328);
  EXPECT_EQ(parameter_count(load_model("gemma3-12b")), 11'765'788'416);
  EXPECT_EQ(parameter_count(load_model("gemma3-27b")), 27'009'002'240);
  EXPECT_EQ(parameter_count(load_model("gpt-neox-20b")), 20'554'567'680);
  EXPECT_EQ(parameter_count(load_model("pythia-1.4b")), 1'414'647'808);
  EXPECT_EQ(parameter_count(load_model("pythia-6.9b")), 6'857'302'016);
  EXPECT_EQ(parameter_count(load_model("pythia-12b")), 11'846'072'320);
  EXPECT_EQ(parameter_count(load_model("bloom-176b")), 176'247'271'424);
  EXPECT_EQ(parameter_count(load_model("opt-1.3b")), 1'315'758'080);
  EXPECT_EQ(parameter_count(load_model("opt-30b")), 29'974'540'288);
  EXPECT_EQ(parameter_count(load_model("mistral-7b")), 7'241'732'096);
  EXPECT_EQ(parameter_count(load_model("phi3-mini")), 3'821'079'552);
  EXPECT_EQ(parameter_count(load_model("phi4")), 14'659'507'200);
  EXPECT_EQ(parameter_count(load_model("qwen2.5-0.5b")), 494'032'768);
  EXPECT_EQ(parameter_count(load_model("qwen2.5-7b")), 7'615'616'512);
  EXPECT_EQ(parameter_count(load_model("qwen2.5-72b")), 72'706'203'648);
}

// Of every two layers one sees 4,096 of 8,192 tokens at most: 2 w - w^2 / s = 6,144 of 8,192.
TEST(ModelFlops, OfWindowsCountTheKeysThatAreSeen) {
  ModelConfig model = load_model("gemma2-9b");
  const std::int64_t columns = 2 * 16 * 256;
  EXPECT_EQ(model_flops_per_token(model).value,
            6 * matmul_parameter_count(model) + 3 * columns * 21 * (8192 + 6144));
  model.layer.window = 8192;  // the whole sequence
  EXPECT_EQ(model_flops_per_token(model).value,
            6 * matmul_parameter_count(model) + 3 * columns * 42 * 8192);
}

// 2 products of 2 s a d flop for each token, three times, none of them masked.
TEST(ModelFlops, BothWaysTwiceAsManyKeysAreSeen) {
  ModelConfig model = load_model("gpt2-124m");
  model.layer.bidirectional = true;
  EXPECT_EQ(model_flops_per_token(model).value,
            6 * matmul_parameter_count(model) + 12 * 12 * 768 * 1024);
}

// 62 layers end within a turn of five with a window and one without.
TEST(ModelFlops, OfTurnsThatTheLayersDoNotFillCountEveryLayer) {
  const ModelConfig model = load_model("gemma3-27b");
  std::int64_t windows = 0;
  for (std::int64_t i = 0; i < model.layers; ++i) windows += model.layer.window_of(i) > 0 ? 1 : 0;
  EXPECT_EQ(windows, 52);
  EXPECT_EQ(model.layer.window_of(5), 0);
  EXPECT_EQ(model.layer.window_of(61), 1024);
}

// [Roller20 Table 2] prints 2.7 and 9.4 billion. By parts: one table of 8,008 tokens, two of 128
// positions, in each layer four matrices of h^2 and two of 4 h^2 with their biases and two norms,
// in a decoder's layer four more matrices and a norm, and a norm behind either stack.
TEST(ParameterCount, OfBlenderBotCountsTheEncoderAndCrossAttention) {
  EXPECT_EQ(parameter_count(load_model("blenderbot-3b")), 2'696'268'800);
  EXPECT_EQ(parameter_count(load_model("blenderbot-9b")), 9'431'810'048);
  for (const char* name : {"blenderbot-3b", "blenderbot-9b"}) {
    const ModelConfig model = load_model(name);
    const std::int64_t h = model.hidden, attention = 4 * h * h + 4 * h, norm = 2 * h;
    const std::int64_t encoder = attention + 8 * h * h + 5 * h + 2 * norm;
    const std::int64_t decoder = model.layers - model.encoder_layers;
    EXPECT_EQ(parameter_count(model), (8008 + 2 * 128) * h + model.layers * encoder +
                                          decoder * (attention + norm) + 2 * norm);
  }
}

// The published weights without pooler and next-sentence loss: those of the encoder with its pooler
// are 109,482,240 and 335,141,888, with both heads 110,106,428 and 336,226,108. A pooler has h^2 +
// h, the head of the next sentence 2 h + 2, that of masked tokens h^2 + 3 h and a bias of each
// token.
TEST(ParameterCount, OfBertIsThatOfThePublishedWeights) {
  const std::int64_t base = parameter_count(load_model("bert-base"));
  const std::int64_t large = parameter_count(load_model("bert-large"));
  EXPECT_EQ(base, 109'514'298);
  EXPECT_EQ(large, 335'174'458);
  const auto pooler = [](std::int64_t h) { return h * h + h; };
  const auto sentence = [](std::int64_t h) { return 2 * h + 2; };
  const auto masked = [](std::int64_t h) { return h * h + 3 * h + 30'522; };
  EXPECT_EQ(base - masked(768) + pooler(768), 109'482'240);
  EXPECT_EQ(large - masked(1024) + pooler(1024), 335'141'888);
  EXPECT_EQ(base + pooler(768) + sentence(768), 110'106'428);
  EXPECT_EQ(large + pooler(1024) + sentence(1024), 336'226'108);
}

// By parts: tables of 32,128 tokens, in each layer four matrices of h a d, two of h f, or three
// where the MLP is gated, and two norms, in a decoder's layer four matrices and a norm more, and
// behind either stack a norm, beside it 32 numbers of each head. The published weights have as
// many.
TEST(ParameterCount, OfT5IsThatOfThePublishedWeights) {
  EXPECT_EQ(parameter_count(load_model("t5-small")), 60'506'624);
  EXPECT_EQ(parameter_count(load_model("t5-base")), 222'903'552);
  EXPECT_EQ(parameter_count(load_model("t5-large")), 737'668'096);
  EXPECT_EQ(parameter_count(load_model("t5-3b")), 2'851'598'336);
  EXPECT_EQ(parameter_count(load_model("t5-11b")), 11'307'321'344);
  EXPECT_EQ(parameter_count(load_model("flan-t5-small")), 76'961'152);
  EXPECT_EQ(parameter_count(load_model("flan-t5-base")), 247'577'856);
  EXPECT_EQ(parameter_count(load_model("flan-t5-large")), 783'150'080);
  EXPECT_EQ(parameter_count(load_model("flan-t5-xl")), 2'849'757'184);
  EXPECT_EQ(parameter_count(load_model("flan-t5-xxl")), 11'135'332'352);
  for (const ModelConfig& model : model_catalogue()) {
    if (model.layer.relative_buckets != 32) continue;
    const std::int64_t h = model.hidden, attention = 4 * h * model.heads * model.head_size();
    const std::int64_t products = model.gated_mlp ? 3 : 2, tables = model.tied_embeddings ? 1 : 2;
    const std::int64_t encoder = attention + products * h * model.ffn + 2 * h;
    EXPECT_EQ(parameter_count(model), tables * 32'128 * h + model.layers * encoder +
                                          (model.layers - model.encoder_layers) * (attention + h) +
                                          2 * (h + 32 * model.heads))
        << model.name;
  }
}

// Of each of s tokens an encoder's layer sees s keys, a decoder's on average s / 2 and s.
TEST(ModelFlops, OfAnEncoderAndItsDecoderCountTheKeysOfBoth) {
  const ModelConfig model = load_model("blenderbot-3b");
  const std::int64_t h = 2560, s = 128, matrices = 26 * 12 * h * h + 24 * 4 * h * h + 8008 * h;
  EXPECT_EQ(matmul_parameter_count(model), matrices);
  EXPECT_EQ(model_flops_per_token(model).value, 6 * matrices + 6 * h * (2 * 2 * s + 24 * 3 * s));
}

TEST(ParameterCount, OfGpt3IsPrinted) {
  const ModelConfig model = load_model("gpt3-175b");
  EXPECT_EQ(parameter_count(model), 174'604'259'328);
  // 174.6 in [Narayanan21 Table 2], 175.0 in [Brown20 Table 2.1]; four digits printed, no more.
  EXPECT_NEAR(billions(model), 174.6, 0.05);
  EXPECT_NEAR(billions(model), 175.0, 0.5);
}

// What the papers print beside the shape: rounded labels, so that the tolerance is half of the last
// digit printed, or what a label such as "10T" of a chosen shape can mean.
struct Label {
  const char* model;
  double billions, tolerance;
};
class ParameterLabel : public testing::TestWithParam<Label> {};

TEST_P(ParameterLabel, IsReproduced) {
  const Label& label = GetParam();
  EXPECT_NEAR(billions(load_model(label.model)), label.billions, label.tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Papers, ParameterLabel,
    testing::Values(Label{"10B", 10, 0.5}, Label{"50B", 50, 0.5},  // [Rajbhandari21 Table 1]
                    Label{"100B", 100, 2}, Label{"0.5T", 500, 10}, Label{"1T", 1010, 5},
                    Label{"5T", 5000, 50}, Label{"10T", 10000, 400}, Label{"20T", 20000, 50},
                    Label{"22B", 22, 0.5}, Label{"megatron-175b", 175, 0.5},  // [Korthikanti22]
                    Label{"530B", 529.6, 0.05}, Label{"megatron-1t", 1008, 0.5}));  // [Narayanan21]

TEST(ParameterCount, UntiedAddsOneOutputMatrix) {
  ModelConfig model = load_model("tiny");
  const std::int64_t tied = parameter_count(model);
  model.tied_embeddings = false;
  EXPECT_EQ(parameter_count(model), tied + 256 * 64);
  EXPECT_EQ(matmul_parameter_count(model), 4 * 12 * 64 * 64 + 256 * 64);
}

TEST(ParameterCount, OfALlamaHasNoBiasesAndNoPositions) {
  // tiny-llama: qkv 64 (4 + 2 2) 16, output 64 64, gate, up and down 3 64 128, two norms 64.
  const ModelConfig model = load_model("tiny-llama");
  const std::int64_t matrices = 64 * 128 + 64 * 64 + 3 * 64 * 128;
  EXPECT_EQ(layer_matmul_parameter_count(model), matrices);
  EXPECT_EQ(layer_parameter_count(model), matrices + 2 * 64);
  EXPECT_EQ(parameter_count(model), 4 * (matrices + 2 * 64) + 2 * 256 * 64 + 64);
  EXPECT_EQ(matmul_parameter_count(model), 4 * matrices + 256 * 64);
}

// The published weights have as many.
TEST(ParameterCount, OfQwen3HasHeadsOfTheirOwnSizeAndTheirNorms) {
  EXPECT_EQ(parameter_count(load_model("qwen3-0.6b")), 596'049'920);
  EXPECT_EQ(parameter_count(load_model("qwen3-8b")), 8'190'735'360);
  ModelConfig model = load_model("qwen3-8b");
  model.qk_norm = false;
  EXPECT_EQ(parameter_count(load_model("qwen3-8b")) - parameter_count(model), 36 * 2 * 128);
}

// Of a layer, without its MLP and the norms of the stream; shapes as in config.json of the
// published weights of DeepSeek-V2 and DeepSeek-V2-Lite [DeepSeek24 sec 3.1.2, appendix B],
// recalled.
TEST(ParameterCount, OfLatentAttentionIsThatOfItsMatricesAndLatentNorms) {
  ModelConfig model = load_model("tiny-mla");
  const auto of_attention = [&model] {
    return layer_parameter_count(model) - model.hidden * (model.up_width() + model.ffn) -
           2 * model.hidden;
  };
  model.hidden = 5120;
  model.heads = model.kv_heads = 128;
  model.latent = LatentShape{1536, 512, 128, 64, 128};
  EXPECT_EQ(of_attention(), 5120 * 1536 + 1536 * 128 * 192 + 5120 * 576 + 512 * 128 * 256 +
                                128 * 128 * 5120 + 1536 + 512);
  EXPECT_EQ(of_attention(), 149'227'520);
  EXPECT_EQ(model.latent->key_value_rank + model.latent->rope_size, 576);  // cached of a token
  model.hidden = 2048;
  model.heads = model.kv_heads = 16;
  model.latent->query_rank = 0;
  EXPECT_EQ(of_attention(), 2048 * 16 * 192 + 2048 * 576 + 512 * 16 * 256 + 16 * 128 * 2048 + 512);
}

// Scores of 192 columns and values of 128 by head, causal, three times over; 6 for each parameter
// of the matrices.
TEST(ModelFlops, OfLatentAttentionCountBothSizesOfAHead) {
  ModelConfig model = load_model("tiny-mla");
  model.latent = LatentShape{0, 512, 128, 64, 128};
  EXPECT_EQ(model_flops_per_token(model).value,
            6 * matmul_parameter_count(model) + 3 * 4 * 32 * 4 * (192 + 128));
}

TEST(NarayananParameters, AreTheExactCountWithoutTheLastNorm) {
  for (const ModelConfig& model : gpt_catalogue()) {
    const auto exact = static_cast<double>(parameter_count(model) - 2 * model.hidden);
    EXPECT_NEAR(narayanan_parameters(model) / exact, 1, 1e-12) << model.name;  // rounding only
  }
}

// Model sizes printed in [Narayanan21 Table 1], V = 51200, s = 2048; three or four digits printed.
struct PrintedSize {
  std::int64_t layers, hidden, heads;
  double billions;
};
class NarayananTable1 : public testing::TestWithParam<PrintedSize> {};

TEST_P(NarayananTable1, SizeIsReproduced) {
  const PrintedSize& row = GetParam();
  const ModelConfig model = shape(row.layers, row.hidden, row.heads, 51200, 2048);
  EXPECT_NEAR(static_cast<double>(parameter_count(model)) / 1e9, row.billions, 0.06);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, NarayananTable1,
    testing::Values(PrintedSize{24, 2304, 24, 1.7}, PrintedSize{30, 3072, 32, 3.6},
                    PrintedSize{36, 4096, 32, 7.5}, PrintedSize{40, 6144, 48, 18.4},
                    PrintedSize{48, 8192, 64, 39.1}, PrintedSize{60, 10240, 80, 76.1},
                    PrintedSize{80, 12288, 96, 145.6}, PrintedSize{96, 16384, 128, 310.1},
                    PrintedSize{105, 20480, 128, 529.6}, PrintedSize{128, 25600, 160, 1008.0}));

TEST(NarayananFlops, GiveThePrintedThroughput) {
  // 1T on 3072 A100, batch 3072: 163 TFLOP/s per GPU [Narayanan21 Table 1]; 502 PFLOP/s in total.
  // At the printed rate one step takes F / 502e15 s; 8 T P / (n X) over the step's tokens agrees
  // within the attention and logits terms that the rule of thumb leaves out [Narayanan21 Eq.4].
  const ModelConfig model = shape(128, 25600, 160, 51200, 2048);
  const double flops = narayanan_hardware_flops(model, 3072);
  const double rule = 8.0 * 3072 * 2048 * static_cast<double>(parameter_count(model));
  EXPECT_NEAR(flops / rule, 1.0, 0.02);
  EXPECT_NEAR(flops / 502e15, 102.4, 0.5);  // seconds per step
}

TEST(KorthikantiFlops, AreOursWithoutTheCausalMask) {
  for (const ModelConfig& model : gpt_catalogue()) {
    const auto tokens = static_cast<double>(model.global_batch * model.sequence);
    const double masked = 6.0 * static_cast<double>(model.layers * model.hidden * model.sequence);
    const double expected = korthikanti_model_flops(model, model.global_batch) - masked * tokens;
    EXPECT_NEAR(model_flops_per_step(model, model.global_batch) / expected, 1, 1e-12) << model.name;
  }
}

TEST(KorthikantiFlops, AreThreeQuartersOfNarayanansOnTheLayers) {
  ModelConfig model = load_model("gpt3-175b");
  const double logits = 6.0 * static_cast<double>(model.vocab * model.hidden * model.sequence);
  EXPECT_NEAR(
      (korthikanti_model_flops(model, 1) - logits) / (narayanan_hardware_flops(model, 1) - logits),
      0.75, 1e-12);
}

TEST(ModelFlops, PerTokenOfGpt2) {
  // N = 12 (4 h^2 + 8 h^2) + V h = 123,532,032; 6 N + 6 L h s.
  EXPECT_EQ(matmul_parameter_count(load_model("gpt2")), 123'532'032);
  EXPECT_EQ(model_flops_per_token(load_model("gpt2")).value,
            6LL * 123'532'032 + 6LL * 12 * 768 * 1024);
}

TEST(ModelFlops, PerTokenOfLlamaAreThoseOfTheVendorsTables) {
  const ModelConfig model = load_model("llama3-8b");
  const auto ours = static_cast<double>(model_flops_per_token(model).value);
  // [Megatron-Bridge] from 2025 on halves attention as we do: 51.5 GF per token, printed digits.
  EXPECT_NEAR(ours / 1e9, 51.5, 0.05);
  // Before, NeMo counted the full square: 57.9 [Megatron-Bridge].
  const double square = 6.0 * static_cast<double>(model.layers * model.hidden * model.sequence);
  EXPECT_NEAR((ours + square) / 1e9, 57.9, 0.05);
}

TEST(ModelFlops, OfOneTrillionStepExceedsInt64) {
  const ModelConfig model = load_model("1T");
  EXPECT_NEAR(model_flops_per_step(model, model.global_batch), 1.59e19, 0.02e19);
}

TEST(PaddedVocab, IsAMultipleOf128TimesTensorParallel) {
  const ModelConfig model = load_model("gpt2");
  EXPECT_EQ(padded_vocab(model, 1), 50304);
  EXPECT_EQ(padded_vocab(model, 8), 51200);
  EXPECT_EQ(padded_vocab(load_model("tiny"), 2), 256);
}

}  // namespace
}  // namespace zplan
