// Counts and closed forms against published numbers and against each other.
#include "models/model_formulas.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zplan {
namespace {

ModelConfig shape(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab,
                  std::int64_t sequence) {
  ModelConfig model;
  model.name = "test";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.ffn = 4 * hidden;
  model.vocab = vocab;
  model.sequence = sequence;
  model.global_batch = 1;
  return model;
}

TEST(ParameterCount, OfGpt2IsThatOfThePublishedWeights) {
  EXPECT_EQ(parameter_count(load_model("gpt2-124m")), 124'439'808);
  // The larger published weights of the same family [Radford19].
  EXPECT_EQ(parameter_count(shape(24, 1024, 16, 50257, 1024)), 354'823'168);
  EXPECT_EQ(parameter_count(shape(36, 1280, 20, 50257, 1024)), 774'030'080);
  EXPECT_EQ(parameter_count(shape(48, 1600, 25, 50257, 1024)), 1'557'611'200);
}

TEST(ParameterCount, OfGpt3IsPrinted) {
  const ModelConfig model = load_model("gpt3-175b");
  EXPECT_EQ(parameter_count(model), 174'604'259'328);
  // 174.6 in [Narayanan21 Table 2], 175.0 in [Brown20 Table 2.1]; four digits printed, no more.
  EXPECT_NEAR(static_cast<double>(parameter_count(model)) / 1e9, 174.6, 0.05);
  EXPECT_NEAR(static_cast<double>(parameter_count(model)) / 1e9, 175.0, 0.5);
}

TEST(ParameterCount, OfTheZeroInfinityModels) {
  // "1.01T" and "10B" [Rajbhandari21 Fig.2a, Table 1]: 12 L h^2 alone is 1.007T and 10.07B.
  EXPECT_NEAR(static_cast<double>(parameter_count(load_model("1T"))) / 1e12, 1.01, 0.005);
  EXPECT_NEAR(static_cast<double>(parameter_count(load_model("10B"))) / 1e9, 10.0, 0.5);
}

TEST(ParameterCount, UntiedAddsOneOutputMatrix) {
  ModelConfig model = load_model("tiny");
  const std::int64_t tied = parameter_count(model);
  model.tied_embeddings = false;
  EXPECT_EQ(parameter_count(model), tied + 256 * 64);
  EXPECT_EQ(matmul_parameter_count(model), 4 * 12 * 64 * 64 + 256 * 64);
}

TEST(NarayananParameters, AreTheExactCountWithoutTheLastNorm) {
  for (const ModelConfig& model : model_catalogue()) {
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
  for (const ModelConfig& model : model_catalogue()) {
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
