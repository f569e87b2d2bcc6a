#include "planner/search/attention_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "hwprofiles/stack.h"
#include "planner/search/leaf.h"
#include "planner/search/search.h"
#include "planner/search/siblings.h"

namespace zplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> tried(const char* model, const char* cluster, const Pins& pins = {}) {
  return kernel_sets_tried(load_model(model), load_cluster(cluster), pins);
}

Pins pinned(const char* kernel_set) {
  Pins pins;
  pins.set("/kernel_set", std::string(kernel_set));
  return pins;
}

TEST(AttentionKernels, HeadsThatCudnnTakesNeedNoOtherSet) {
  EXPECT_THAT(tried("llama3-8b", "dgx-a100"), ElementsAre("cuda.sm80.bf16"));
  EXPECT_THAT(tried("gemma2-27b", "dgx-a100"), ElementsAre("cuda.sm80.bf16"));
  EXPECT_THAT(tried("gemma2-9b", "dgx-h100"), ElementsAre("cuda.sm90.bf16")) << "256 on Hopper";
  EXPECT_THAT(tried("deepseek-v3", "dgx-b200"), ElementsAre("cuda.sm100.bf16")) << "192 and 128";
}

TEST(AttentionKernels, ScoresThatAreFewAreStoredWhereCudnnRefuses) {
  EXPECT_THAT(tried("1T", "dgx-h100"), ElementsAre("cuda.sm90.bf16.unfused")) << "heads of 100";
  EXPECT_THAT(tried("gpt2-124m", "dgx2"), ElementsAre("cuda.sm70.fp16.unfused"));
}

// The scores of 32,768 tokens may not fit.
TEST(AttentionKernels, BothSetsAreTriedWhereScoresAreLarge) {
  EXPECT_THAT(tried("gemma3-12b", "aws-p4d"),
              ElementsAre("cuda.sm80.bf16.unfused", "cuda.sm80.bf16"));
  std::set<std::string> sets;
  for (const Plan& plan : enumerate(load_model("gemma3-12b"), load_cluster("aws-p4d"), {}))
    sets.insert(plan.kernel_set);
  EXPECT_THAT(sets, ElementsAre("cuda.sm80.bf16", "cuda.sm80.bf16.unfused"));
}

// Plans that differ in homes alone stand side by side, and no others are among them.
TEST(AttentionKernels, PlansOfTwoSetsAreNoSiblings) {
  std::vector<Leaf> leaves(2);
  for (Leaf& leaf : leaves) leaf.candidate.plan.kernel_set = "cuda.sm80.bf16";
  EXPECT_EQ(Siblings(leaves).end_of_group(0), 2u);
  leaves[1].candidate.plan.kernel_set += ".unfused";
  EXPECT_EQ(Siblings(leaves).end_of_group(0), 1u);
}

TEST(AttentionKernels, APinnedSetIsTheOnlyOne) {
  EXPECT_THAT(tried("gemma3-12b", "aws-p4d", pinned("cuda.sm80.bf16")),
              ElementsAre("cuda.sm80.bf16"));
}

// FlashAttention takes heads of 256 on an A100, and none above.
TEST(AttentionKernels, OtherSoftwareHasTheHeadsOfItsLibrary) {
  Cluster cluster = load_cluster("dgx-a100");
  cluster.stack = load_stack("megatron_core").rates;
  ModelConfig model = load_model("gemma2-9b");
  EXPECT_THAT(kernel_sets_tried(model, cluster, {}), ElementsAre("cuda.sm80.bf16"));
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.batch.sequence = model.sequence;
  EXPECT_THAT(attention_words(plan, model, cluster), IsEmpty());
  model.own_head_size = 320;
  EXPECT_THAT(kernel_sets_tried(model, cluster, {}), ElementsAre("cuda.sm80.bf16.unfused"));
  cluster.node.device.kernel_set = "cuda.sm80.bf16.unfused";  // it never fuses attention
  EXPECT_THAT(kernel_sets_tried(load_model("gemma2-9b"), cluster, {}),
              ElementsAre("cuda.sm80.bf16.unfused"));
}

std::string words(const char* kernel_set, const char* model, const char* cluster) {
  Plan plan;
  plan.kernel_set = kernel_set;
  plan.batch.sequence = load_model(model).sequence;
  return attention_words(plan, load_model(model), load_cluster(cluster));
}

TEST(AttentionKernels, OnlyWhatIsNotPlainIsSaid) {
  EXPECT_THAT(words("cuda.sm80.bf16", "llama3-8b", "dgx-a100"), IsEmpty());
  EXPECT_THAT(words("cuda.sm70.fp16.unfused", "llama3-8b", "dgx2"), IsEmpty());
  EXPECT_THAT(words("cuda.sm80.bf16.unfused", "gemma2-9b", "dgx-a100"),
              HasSubstr("scores of attention are stored: cuDNN has no fused attention for heads "
                        "of 256"));
  EXPECT_THAT(words("cuda.sm80.bf16", "gemma2-9b", "dgx-a100"),
              HasSubstr("SLOW attention on vector units: cuDNN has no"));
}

std::string set_words(const char* kernel_set, const char* model, const char* cluster) {
  Plan plan;
  plan.kernel_set = kernel_set;
  plan.batch.sequence = load_model(model).sequence;
  return kernel_set_words(plan, load_model(model), load_cluster(cluster));
}

TEST(AttentionKernels, EverySetHasASentence) {
  EXPECT_EQ(set_words("cuda.sm80.bf16", "llama3-8b", "dgx-a100"),
            "cuda.sm80.bf16 is the usual kernel set of A100-SXM4-80GB, and cuDNN has fused "
            "attention for heads of 128");
  EXPECT_EQ(set_words("cpu.f32", "tiny-gpt", "workstation"),
            "cpu.f32 is the usual kernel set of " + load_cluster("workstation").node.device.name);
  EXPECT_THAT(set_words("cuda.sm80.fp16", "llama3-8b", "dgx-a100"),
              HasSubstr("is a decision of the plan: the usual kernel set of A100-SXM4-80GB is "
                        "cuda.sm80.bf16"));
  EXPECT_THAT(set_words("cuda.sm80.bf16.unfused", "gemma2-9b", "dgx-a100"),
              HasSubstr("cuda.sm80.bf16.unfused: scores of attention are stored: cuDNN has no"));
}

}  // namespace
}  // namespace zplan
