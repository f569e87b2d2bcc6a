// Scratch and heads of fused attention against what cuDNN 9.19 answered for an H100 and an A100.
#include "planner/program/kernels/fused_attention.h"

#include <gtest/gtest.h>

#include "models/model_config.h"
#include "planner/lower/lower.h"

namespace zplan {
namespace {

constexpr double kMib = 1 << 20;

double mib(Bytes bytes) { return static_cast<double>(bytes.value) / kMib; }

struct Answer {
  const char* set;
  FusedAttention attention;
  double whole;  // MiB that its plan in one piece takes
};
constexpr FusedAttention kLlama8b{1, 8192, 32, 8, 128}, kShorter{1, 4096, 32, 8, 128};
constexpr FusedAttention kGroupOf8b{1, 8192, 4, 1, 128}, kGroupOf70b{1, 8192, 8, 1, 128};
constexpr Answer kAnswers[] = {
    {"cuda.sm90.bf16", kLlama8b, 257},     {"cuda.sm80.bf16", kLlama8b, 385},
    {"cuda.sm90.bf16", kShorter, 128.5},   {"cuda.sm80.bf16", kShorter, 192.5},
    {"cuda.sm90.bf16", kGroupOf8b, 32.13}, {"cuda.sm80.bf16", kGroupOf8b, 48.1},
    {"cuda.sm90.bf16", kGroupOf70b, 64.3}, {"cuda.sm80.bf16", kGroupOf70b, 96.3},
};

TEST(FusedAttention, TheWholeIsWhatCudnnTakesAndALittleMore) {
  for (const Answer& answer : kAnswers) {
    const double declared =
        mib(fused_backward_whole(answer.attention, find_kernel_set(answer.set)));
    EXPECT_GE(declared, answer.whole) << answer.set;
    EXPECT_LE(declared, answer.whole + 1.1) << answer.set;
  }
}

TEST(FusedAttention, ScratchHoldsAPieceHoweverLongTheSequence) {
  const KernelSet& set = find_kernel_set("cuda.sm90.bf16");
  for (const std::int64_t sequence : {1024, 8192, 131072}) {
    const FusedAttention all{4, sequence, 64, 8, 128}, piece{1, sequence, 8, 1, 128};
    EXPECT_GE(fused_backward_scratch(all, set), fused_backward_whole(piece, set));
    EXPECT_LE(fused_backward_scratch(all, set), fused_backward_whole(all, set));
  }
  EXPECT_LT(mib(fused_backward_scratch({4, 8192, 64, 8, 128}, set)), 300);
}

TEST(FusedAttention, HeadsThatCudnnRefusesAreKnown) {
  const KernelSet &hopper = find_kernel_set("cuda.sm90.bf16"),
                  &ampere = find_kernel_set("cuda.sm80.fp16");
  EXPECT_TRUE(has_tensor_cores(hopper, 160));
  EXPECT_FALSE(has_tensor_cores(ampere, 160));
  EXPECT_FALSE(has_tensor_cores(hopper, 100));
  const KernelSet& blackwell = find_kernel_set("cuda.sm100.bf16");
  for (const std::int64_t size : {64, 128, 192, 256})
    EXPECT_TRUE(has_tensor_cores(blackwell, size));
  for (const std::int64_t size : {136, 160, 208, 240})
    EXPECT_FALSE(has_tensor_cores(blackwell, size));
  EXPECT_TRUE(runs_on_vectors(hopper, 100));
  EXPECT_FALSE(runs_on_vectors(hopper, 96));
}

TEST(FusedAttention, RunsOnVectorsWhereCudnnHasNoKernelForAnyHead) {
  for (const char* set : {"cuda.sm90.fp32", "cuda.sm70.fp16"})
    EXPECT_TRUE(runs_on_vectors(find_kernel_set(set), 64)) << set;
  for (const char* set : {"cpu.bf16", "cuda.sm90.bf16.unfused", "rocm.gfx942.bf16"})
    EXPECT_FALSE(runs_on_vectors(find_kernel_set(set), 100)) << set;
}

// The scratch of a stage is that of its kernel that needs most.
TEST(FusedAttention, LongSequencesWidenTheScratchOfAJob) {
  Plan plan;
  plan.model = "llama3-8b";
  plan.kernel_set = "cuda.sm90.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 1, .micro_batch = 1, .sequence = 8192};
  const Program program = lower(plan, load_model("llama3-8b")).classes[0].program;
  EXPECT_EQ(program.buffers[0].name, "workspace");
  EXPECT_GE(program.buffers[0].slot_size,
            fused_backward_scratch(kLlama8b, find_kernel_set(plan.kernel_set)));
  for (const Node& node : program.nodes)
    for (const View& view : program.operands(node))
      EXPECT_TRUE(view.access != Access::kScratch || view.bytes() == program.buffers[0].slot_size);
}

}  // namespace
}  // namespace zplan
