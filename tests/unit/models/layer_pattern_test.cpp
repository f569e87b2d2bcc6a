#include "models/layer_pattern.h"

#include <gtest/gtest.h>

#include "models/model_config.h"
#include "models/model_formulas.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

TEST(LayerPattern, HasALetterForEachLayerOrAWord) {
  const LayerPattern single = pattern_of("ME*-", 4);
  EXPECT_EQ(single[0], (LayerParts{Mixer::kMamba, FeedForward::kNone}));
  EXPECT_EQ(single[1], (LayerParts{Mixer::kNone, FeedForward::kExperts}));
  EXPECT_EQ(single[2], (LayerParts{Mixer::kAttention, FeedForward::kNone}));
  EXPECT_EQ(single[3], (LayerParts{Mixer::kNone, FeedForward::kMlp}));
  const LayerPattern words = pattern_of("GE *-", 4);
  EXPECT_EQ(words[2], (LayerParts{Mixer::kDelta, FeedForward::kExperts}));
  EXPECT_EQ(words[3], (LayerParts{Mixer::kAttention, FeedForward::kMlp}));
}

TEST(LayerPattern, IsWrittenAsItsShortestTurn) {
  EXPECT_EQ(pattern_period(pattern_of("MEM*", 8)), 4);
  EXPECT_EQ(pattern_words(pattern_of("MEMEMEME", 8)), "ME");
  EXPECT_EQ(pattern_words(pattern_of("GE GE GE *E", 48)), "GE GE GE *E");
  EXPECT_EQ(pattern_words(pattern_of("MMM*M", 5)), "MMM*M");
  for (const char* words : {"M", "ME ME", "ME *E", "ME*-"}) {
    const LayerPattern pattern = pattern_of(words, 4);
    EXPECT_EQ(pattern_of(pattern_words(pattern), 4), pattern) << words;
  }
}

TEST(LayerPattern, NamesWhatItDoesNotKnow) {
  EXPECT_NE(pattern_fault("MXM", 3).find("got \"X\""), std::string::npos);
  EXPECT_NE(pattern_fault("ME EM", 2).find("got \"EM\""), std::string::npos);
  EXPECT_NE(pattern_fault("MEM", 4).find("got 3"), std::string::npos);
  EXPECT_EQ(pattern_fault("ME", 4), "");
}

std::string nano(const std::string& pattern, const std::string& more) {
  return R"({"schema": "zplan.model/1", "name": "m", "architecture": "llama", "layers": 52,
    "hidden": 2688, "heads": 32, "kv_heads": 2, "head_size": 128, "ffn": 1856, "vocab": 131072,
    "sequence": 8192, "position": "none", "gated_mlp": false, "layer_pattern": ")" +
         pattern + "\"" + more + "}";
}
const std::string kMamba = R"(, "mamba_heads": 64, "mamba_head_size": 64, "mamba_groups": 8,
    "mamba_state": 128)";
const std::string kExperts = R"(, "experts": 128, "experts_per_token": 6,
    "shared_expert_ffn": 3712, "router_scores": "sigmoid", "router_bias": true)";
constexpr const char* kNano = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";

// [derived] by hand, as the configuration of Nemotron 3 Nano 30B-A3B has it: 31.6 10^9 parameters
// are published, 3.6 10^9 of them, embeddings included, for each token.
TEST(LayerPattern, CountsTheParametersOfNemotronNano) {
  const ModelConfig model = parse_model(nano(kNano, kMamba + kExperts), "m.json");
  constexpr std::int64_t h = 2688;
  const std::int64_t mamba =
      h * 10304 + 6144 * 5 + 3 * 64 + 4096 + 4096 * h + h;  // 2 * 4096 + 2 * 1024 + 64 columns
  const std::int64_t attention = h * (4096 + 2 * 256) + 4096 * h + h;
  const std::int64_t experts = h * 128 + 128 + 2 * h * (128 * 1856 + 3712) + h;
  EXPECT_EQ(model.layers_with(Mixer::kMamba), 23);
  EXPECT_EQ(parameter_count(model), 23 * mamba + 6 * attention + 23 * experts + 2 * 131072 * h + h);
  EXPECT_NEAR(static_cast<double>(parameter_count(model)), 31.6e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(model)), 3.6e9, 0.05e9);
}

TEST(LayerPattern, GoesWithTheSizesOfItsMixersOnly) {
  EXPECT_NE(message_of([] { parse_model(nano(kNano, kExperts), "m.json"); }).find("mamba_heads"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              parse_model(nano("*-", kMamba), "m.json");
            }).find("expected no mamba_heads without M in layer_pattern"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              parse_model(nano("M", kMamba + kExperts), "m.json");
            }).find("expected no experts without E in layer_pattern"),
            std::string::npos);
}

}  // namespace
}  // namespace zplan
