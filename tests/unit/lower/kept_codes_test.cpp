// Inputs of products that backward keeps as codes: what is kept and gathered in their stead, that
// training stays the same, and which plans cannot.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

Plan plan_of(const std::string& kernel_set, const std::string& model, bool codes) {
  Plan plan;
  plan.model = model;
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 4, .sequence = 32};
  plan.low_precision.keeps_codes = codes;
  return plan;
}

std::map<std::string, Bytes> buffers_of(const Plan& plan) {
  std::map<std::string, Bytes> bytes;
  const Job job = lower(plan, load_model(plan.model));
  for (const Buffer& buffer : job.classes[0].program.buffers)
    bytes[buffer.name] = buffer.slot_size * buffer.slots;
  return bytes;
}

// A layer keeps the codes of what its norms and its activation function give, a byte each and four
// for each row's scale; what attention gives its own backward reads.
TEST(KeptCodes, StandInTheStreamsPlace) {
  const ModelConfig model = load_model("tiny-llama");
  const auto plain = buffers_of(plan_of("cuda.sm90.fp8", "tiny-llama", false));
  const auto codes = buffers_of(plan_of("cuda.sm90.fp8", "tiny-llama", true));
  const std::int64_t tokens = 4 * 32;
  const auto kept = [&](std::int64_t width) {
    return round_up(Bytes{tokens * (width + 4)}, kBufferAlignment) * model.layers;
  };
  for (const auto& [name, width] :
       {std::pair{"norm1", model.hidden}, {"norm2", model.hidden}, {"gelu", model.ffn}}) {
    ASSERT_TRUE(plain.contains(name)) << name;
    EXPECT_EQ(plain.at(name).value, tokens * width * 2 * model.layers) << name;
    EXPECT_FALSE(codes.contains(name)) << name;
    EXPECT_EQ(codes.at(std::string(name) + ".codes"), kept(width)) << name;
  }
  EXPECT_EQ(codes.at("attention"), plain.at("attention"));
}

// The format says how long a row is: blocks of 32 with a byte each, or of 16 with 4-bit codes.
TEST(KeptCodes, AreAsLongAsTheFormatSays) {
  EXPECT_EQ(find_kernel_set("cuda.sm90.fp8").codes.row_bytes(4096).value, 4096 + 4);
  EXPECT_EQ(find_kernel_set("cuda.sm90.fp8_block").codes.row_bytes(4096).value, 4096 + 32 * 4);
  EXPECT_EQ(find_kernel_set("cuda.sm100.mxfp8").codes.row_bytes(4096).value, 4096 + 128);
  EXPECT_EQ(find_kernel_set("cuda.sm100.nvfp4").codes.row_bytes(4096).value, 2048 + 256);
}

// Ranks with sequence parallelism gather a byte for each element of the norms in place of two, and
// of the gradients of what a branch adds; what the ends of the model gather is as before.
TEST(KeptCodes, AreWhatTensorParallelRanksGather) {
  using Gathers = std::map<std::string, std::int64_t>;
  const auto gathers = [](bool codes) {
    Plan plan = plan_of("cuda.sm90.fp8", "tiny-llama", codes);
    plan.parallel.tp = 2;
    plan.parallel.sequence_parallel = true;
    const Job job = lower(plan, load_model(plan.model));
    const Program& program = job.classes[0].program;
    Gathers bytes;
    for (const Node& node : program.nodes)
      if (node.kind == OpKind::kCollective && node.role.action == Action::kGatherRanks &&
          node.lane == Lane::kCommTensor)
        bytes[name(node.role)] += program.operands(node)[1].bytes().value;
    return bytes;
  };
  const Gathers whole = gathers(false), coded = gathers(true);
  const std::int64_t hidden = load_model("tiny-llama").hidden;
  const std::int64_t row = find_kernel_set("cuda.sm90.fp8").codes.row_bytes(hidden).value;
  int fewer = 0;
  for (const auto& [role, bytes] : coded) {
    ASSERT_TRUE(whole.contains(role)) << role;
    if (bytes == whole.at(role)) continue;
    EXPECT_EQ(bytes * 2 * hidden, whole.at(role) * row) << role;
    ++fewer;
  }
  // Norms forward, and once more for gradients of weights, and gradients, of attention and the MLP.
  EXPECT_EQ(fewer, 6);
}

std::string refusal(const Plan& plan) {
  return illegal(plan, shape_of(load_model(plan.model))).value_or("");
}

TEST(KeptCodes, AreRefusedInOneLine) {
  EXPECT_EQ(refusal(plan_of("cpu.f32", "tiny-gpt", true)),
            "kernel set cpu.f32 has no codes that inputs of products could be kept as; sets with "
            "fp8 have");
  EXPECT_EQ(refusal(plan_of("cpu.f32.fp8.whole", "tiny-gpt", true)),
            "kernel set cpu.f32.fp8.whole has one scale for a whole matrix, which no row of codes "
            "has; sets that round in blocks have");
  Plan lora = plan_of("cuda.sm90.fp8", "tiny-gpt", true);
  lora.train.what = Trained::kLora;
  EXPECT_EQ(refusal(lora),
            "inputs of products are kept as codes, which factors of LoRA do not read");
  Plan away = plan_of("cuda.sm90.fp8", "tiny-gpt", true);
  away.recompute = {{.mode = Recompute::kOperators, .on_cpu = {LayerOperator::kFc1}}};
  EXPECT_EQ(refusal(away),
            "codes of inputs stay on the GPU: no operator's results go to another tier beside "
            "them");
}

}  // namespace
}  // namespace zplan
