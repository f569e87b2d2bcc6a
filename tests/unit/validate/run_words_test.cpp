#include "planner/validate/run_words.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

RunRecord saying(const char* words) {
  RunRecord run;
  run.recompute_detail = words;
  return run;
}

TEST(RunWords, OptionsNameTheOperatorsThatAreRecomputed) {
  using enum LayerOperator;
  EXPECT_EQ(recomputed_operators(saying("--recompute-ffn --recompute-norm")),
            (OperatorSet{kFc1, kActivation, kNorm}));
  EXPECT_EQ(recomputed_operators(saying("remat policy save_qkv_proj")),
            (OperatorSet{kNorm, kAttention, kProjection, kFc1, kActivation}));
  EXPECT_EQ(recomputed_operators(saying("remat policy minimal_flash")),
            (OperatorSet{kNorm, kActivation}));
  EXPECT_TRUE(recomputed_operators(saying("selective (attention core)")).empty());
  EXPECT_TRUE(recomputed_operators(RunRecord{}).empty());
}

// [PyTorch torch/utils/checkpoint.py] The input of the last product is the last tensor of a layer
// that backward needs: all but that product is computed again.
TEST(RunWords, AnEarlyStopRecomputesAllButTheLastProduct) {
  using enum LayerOperator;
  EXPECT_EQ(recomputed_operators(saying("full (every block), not reentrant: early stop")),
            (OperatorSet{kNorm, kQkv, kAttention, kProjection, kFc1, kActivation}));
}

TEST(RunWords, LayersThatAreRecomputedMayBeCounted) {
  RunRecord run = saying("activation checkpointing of 10 of 80 layers");
  run.model.layers = 80;
  EXPECT_EQ(recomputed_layers(run), 10);
  run.model.layers = 40;
  EXPECT_EQ(recomputed_layers(run), 0) << "of another model";
  run.recompute_detail = " of 40 layers";
  EXPECT_EQ(recomputed_layers(run), 0) << "no number";
  run.recompute_detail.reset();
  EXPECT_EQ(recomputed_layers(run), 0);
}

TEST(RunWords, TheHeadIsInOnePieceUnlessTheyCountMore) {
  EXPECT_EQ(head_chunks(saying("--lmhead-chunks=16 --offload-master")), 16);
  EXPECT_EQ(head_chunks(saying("--offload-master")), 1);
  EXPECT_EQ(head_chunks(saying("--lmhead-chunks=")), 1);
}

TEST(RunWords, StatesAreOffTheGpuOneByOne) {
  EXPECT_EQ(offloaded_states(saying("--offload-opt-m --offload-master")),
            (OffloadedStates{.master = true, .moment1 = true}));
  EXPECT_FALSE(offloaded_states(RunRecord{}).any());
}

}  // namespace
}  // namespace zplan
