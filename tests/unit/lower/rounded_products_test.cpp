// Products of layers whose operands are rounded to fp8: what is rounded, and which plans cannot be.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/program/kernels/fp8_products.h"

namespace zplan {
namespace {

Plan plan_of(const std::string& kernel_set, const std::string& model = "tiny-gpt") {
  Plan plan;
  plan.model = model;
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 4, .sequence = 32};
  return plan;
}

// Of each of the four products of a layer both operands forward; backward the input and the weight
// once more, and the gradient once for both of its products.
TEST(RoundedProducts, RoundEachOperandOfEachProduct) {
  const Job job = lower(plan_of("cpu.f32.fp8"), load_model("tiny-gpt"));
  std::map<Action, int> actions;
  for (const Node& node : job.classes[0].program.nodes)
    if (node.kind == OpKind::kKernel && node.kernel == KernelId::kRoundFp8)
      ++actions[node.role.action];
  EXPECT_EQ(actions[Action::kRoundInput], 8);
  EXPECT_EQ(actions[Action::kRoundWeight], 8);
  EXPECT_EQ(actions[Action::kRoundGradient], 4);
}

// All of an operand is one block, and gradients alone are e5m2.
TEST(RoundedProducts, RoundWholeOperandsWithOneScale) {
  const Job job = lower(plan_of("cpu.f32.fp8.whole"), load_model("tiny-gpt"));
  const Program& program = job.classes[0].program;
  for (const Node& node : program.nodes) {
    if (node.kind != OpKind::kKernel || node.kernel != KernelId::kRoundFp8) continue;
    const Shape& shape = program.operands(node)[0].shape;
    const Attributes& attributes = program.attributes_of(node);
    EXPECT_EQ(attributes[0], Attribute(shape[0]));
    EXPECT_EQ(attributes[1], Attribute(shape[1]));
    EXPECT_EQ(attributes[2], Attribute(node.role.action == Action::kRoundGradient ? 1 : 0));
  }
}

// Sets that multiply in fp8 cast on the way: no kernel more, and the workspace has room for what
// the casts of the largest product leave.
TEST(RoundedProducts, OfFp8AreCastInTheWorkspace) {
  const Job plain = lower(plan_of("cuda.sm90.bf16"), load_model("tiny-gpt"));
  const Job cast = lower(plan_of("cuda.sm90.fp8"), load_model("tiny-gpt"));
  const auto workspace = [](const Job& job) {
    for (const Buffer& buffer : job.classes[0].program.buffers)
      if (buffer.category == Category::kWorkspace) return buffer.slot_size;
    return Bytes{0};
  };
  EXPECT_EQ(cast.classes[0].program.nodes.size(), plain.classes[0].program.nodes.size());
  EXPECT_EQ(workspace(cast) - workspace(plain), fp8_scratch({.m = 128, .n = 64, .k = 256}).rest);
}

std::string refusal(const Plan& plan, const ModelConfig& model) {
  return illegal(plan, shape_of(model)).value_or("");
}

TEST(RoundedProducts, AreRefusedInOneLine) {
  const auto on_two = [](Plan plan) {
    plan.parallel.tp = 2;
    return plan;
  };
  EXPECT_EQ(refusal(on_two(plan_of("cpu.f32.fp8")), load_model("tiny-gpt")),
            "tp 2 cuts the blocks of 128 columns that cpu.f32.fp8 rounds; tp 1 does not");
  ModelConfig wide = load_model("tiny-gpt");
  wide.hidden = wide.heads * 64, wide.ffn = 1024;
  Plan in_tiles = on_two(plan_of("cpu.f32.fp8"));
  EXPECT_EQ(refusal(in_tiles, wide), "");
  in_tiles.gather = Gather::in_tiles(2);
  EXPECT_EQ(refusal(in_tiles, wide),
            "tp 2 x 2 tiles cuts the blocks of 128 columns that cpu.f32.fp8 rounds; 2 pieces of a "
            "matrix do not");
  in_tiles = plan_of("cpu.f32.fp8");
  in_tiles.gather = Gather::in_tiles(2);
  EXPECT_EQ(refusal(in_tiles, load_model("tiny-gpt")),
            "tp 1 x 2 tiles cuts the blocks of 128 columns that cpu.f32.fp8 rounds; 1 tile does "
            "not");
  EXPECT_EQ(refusal(on_two(plan_of("cpu.f32.fp8", "tiny-mla")), load_model("tiny-mla")),
            "kernel set cpu.f32.fp8 rounds gradients of latents, of which tp ranks have parts: it "
            "needs tp 1, not 2");
  EXPECT_EQ(refusal(plan_of("cpu.f32.fp8", "tiny-moe"), load_model("tiny-moe")),
            "kernel set cpu.f32.fp8 rounds no products of experts; cpu.f32 does not round");
  EXPECT_EQ(
      refusal(on_two(plan_of("cpu.f32.fp8.whole")), load_model("tiny-gpt")),
      "kernel set cpu.f32.fp8.whole has one scale for a whole matrix: it needs tp 1, cp 1 and "
      "1 tile, not tp 2, cp 1 and 1; cpu.f32.fp8 rounds in blocks");
  Plan lora = plan_of("cpu.f64.fp8");
  lora.train.what = Trained::kLora;
  EXPECT_EQ(refusal(lora, load_model("tiny-gpt")),
            "kernel set cpu.f64.fp8 rounds no factors of LoRA; cpu.f64 does not round");
}

}  // namespace
}  // namespace zplan
