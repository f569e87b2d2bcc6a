#include "planner/validate/run_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::Optional;

// A record of the first form, with its words as keys.
RunRecord saying(const char* words, const char* mode = "selective", std::int64_t layers = 80) {
  RunRecord run;
  run.recompute = mode;
  run.recompute_detail = words;
  run.model.layers = layers;
  words_to_keys(run);
  return run;
}

RunRecord citing(const char* source) {
  RunRecord run;
  run.source = source;
  words_to_keys(run);
  return run;
}

TEST(RunWords, OptionsNameTheOperatorsThatAreRecomputed) {
  const auto modules = [](const char* words) { return saying(words).recomputed.modules; };
  EXPECT_THAT(modules("--recompute-ffn --recompute-norm"),
              Optional(ElementsAre("norm", "fc1", "activation")));
  EXPECT_THAT(modules("remat policy save_qkv_proj"),
              Optional(ElementsAre("norm", "attention", "projection", "fc1", "activation")));
  EXPECT_THAT(modules("remat policy minimal_flash"), Optional(ElementsAre("norm", "activation")));
  EXPECT_FALSE(modules("selective (attention core)"));
  EXPECT_FALSE(saying("--recompute-ffn", "none").recomputed.modules) << "nothing is recomputed";
}

// [PyTorch torch/utils/checkpoint.py] The input of the last product is the last tensor of a layer
// that backward needs: all but that product is computed again.
TEST(RunWords, AnEarlyStopRecomputesAllButTheLastProduct) {
  EXPECT_THAT(saying("full (every block), not reentrant: early stop", "full").recomputed.modules,
              Optional(ElementsAre("norm", "qkv", "attention", "projection", "fc1", "activation")));
}

TEST(RunWords, LayersThatAreRecomputedMayBeCounted) {
  constexpr const char* kWords = "activation checkpointing of 10 of 80 layers";
  EXPECT_EQ(saying(kWords).recomputed.layers, 10);
  EXPECT_FALSE(saying(kWords, "selective", 40).recomputed.layers) << "of another model";
  EXPECT_FALSE(saying(" of 80 layers").recomputed.layers) << "no number";
  EXPECT_FALSE(saying(kWords, "full").recomputed.layers) << "all are";
}

TEST(RunWords, TheHeadIsInOnePieceUnlessTheyCountMore) {
  EXPECT_EQ(saying("--lmhead-chunks=16 --offload-master").kernels.head_chunks, 16);
  EXPECT_FALSE(saying("--offload-master").kernels.head_chunks);
  EXPECT_FALSE(saying("--lmhead-chunks=").kernels.head_chunks);
}

TEST(RunWords, StatesAreOffTheGpuOneByOne) {
  EXPECT_THAT(saying("--offload-opt-m --offload-master").offload.states,
              Optional(ElementsAre("master", "moment1")));
  EXPECT_FALSE(saying("").offload.states);
}

TEST(RunWords, TheSourceNamesSoftwareAndOptions) {
  EXPECT_EQ(citing("fms-fsdp (FSDP, torch.compile)").software.compiled, true);
  EXPECT_FALSE(citing("torch.compiled").software.compiled);
  EXPECT_EQ(citing("tests/gpt_cross_entropy_loss_fusion").kernels.cross_entropy, "compiled");
  EXPECT_EQ(citing("Megatron-LM, a table").software.cited, "Megatron-LM, a table");
}

}  // namespace
}  // namespace zplan
