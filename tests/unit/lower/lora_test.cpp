// Frozen parameters and the factors of LoRA: what is kept of them, and which products are made.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/model_formulas.h"
#include "planner/lower/lower.h"

namespace zplan {
namespace {

Plan plan_of(Trained what, const std::string& model = "tiny-llama",
             const std::string& kernel_set = "cpu.bf16") {
  Plan plan;
  plan.model = model;
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 1, .sequence = 32};
  plan.train.what = what;
  return plan;
}

Job job_of(const Plan& plan) { return lower(plan, load_model(plan.model)); }

std::map<Category, std::int64_t> state_bytes(const Job& job) {
  std::map<Category, std::int64_t> bytes;
  for (const Buffer& b : job.classes[0].program.buffers)
    if (b.persistent || b.category == Category::kGradients)
      bytes[b.category] += b.unpadded.value / b.shards;
  return bytes;
}

// Elements of the factors beside all products of the layers.
std::int64_t factors(const ModelConfig& m, std::int64_t rank) {
  return m.layers * rank *
         (m.hidden + m.qkv_width() + m.attention_width() + m.hidden + m.hidden + m.up_width() +
          m.ffn + m.hidden);
}

int kernels(const Job& job, KernelId kernel) {
  int count = 0;
  for (const Node& node : job.classes[0].program.nodes)
    if (node.kind == OpKind::kKernel && node.kernel == kernel) ++count;
  return count;
}

// 2 bytes of each parameter, 14 more of what is trained: gradient, master copy, two moments.
TEST(Lora, FrozenParametersTakeTheirOwnBytesOnly) {
  const ModelConfig model = load_model("tiny-llama");
  Plan plan = plan_of(Trained::kLora);
  const std::int64_t trained = factors(model, 8), all = parameter_count(model) + trained;
  auto bytes = state_bytes(job_of(plan));
  EXPECT_EQ(bytes[Category::kParameters], 2 * all);
  EXPECT_EQ(bytes[Category::kGradients], 2 * trained);
  EXPECT_EQ(bytes[Category::kOptimizer], 12 * trained);
  plan.train.what = Trained::kLayers;
  const std::int64_t layers = model.layers * layer_parameter_count(model);
  bytes = state_bytes(job_of(plan));
  EXPECT_EQ(bytes[Category::kParameters], 2 * parameter_count(model));
  EXPECT_EQ(bytes[Category::kGradients], 2 * layers);
  EXPECT_EQ(bytes[Category::kOptimizer], 12 * layers);
}

// [Hu21 sec 4.2] GPT-3 175B with rank 4 beside queries and values has 4.7 M factors, a ten
// thousandth of its parameters; beside queries, keys and values in one product [h, 3 h] they are
// 96 layers x 4 x 4 h.
TEST(Lora, CountsAsPublished) {
  const ModelConfig model = load_model("gpt3-175b");
  Plan plan = plan_of(Trained::kLora, "gpt3-175b", "cuda.sm80.bf16");
  plan.batch = {.global_batch = 1, .micro_batch = 1, .sequence = 2048};
  plan.train.rank = 4;
  plan.train.targets = LoraTargets::kQkv;
  const auto bytes = state_bytes(job_of(plan));
  EXPECT_EQ(bytes.at(Category::kOptimizer), 12 * 96 * 4 * 4 * model.hidden);
  EXPECT_LT(bytes.at(Category::kOptimizer), 12 * parameter_count(model) / 5000);
}

TEST(Lora, MakesNoGradientsOfFrozenMatrices) {
  const Job all = job_of(plan_of(Trained::kAll)), lora = job_of(plan_of(Trained::kLora));
  using enum KernelId;
  EXPECT_EQ(kernels(all, kHeadWeightGradient), 1);
  EXPECT_EQ(kernels(all, kMatmulWeightGradient), 4);
  EXPECT_EQ(kernels(all, kEmbeddingBackward), 1);
  EXPECT_EQ(kernels(lora, kHeadWeightGradient), 0);
  EXPECT_EQ(kernels(lora, kEmbeddingBackward), 0);
  EXPECT_EQ(kernels(lora, kMatmulWeightGradient), 2 * 4) << "of the factors alone";
  EXPECT_EQ(kernels(lora, kLinearInputGradient), 3 * 4);
  EXPECT_EQ(kernels(lora, kMatmulForward), 3 * 4);
  for (const Node& node : lora.classes[0].program.nodes)
    if (node.kind == OpKind::kKernel && node.kernel == kMatmulWeightGradient) {
      EXPECT_TRUE(node.role.action == Action::kLoraDownWeight ||
                  node.role.action == Action::kLoraUpWeight);
    }
}

TEST(Lora, HasFactorsBesideItsTargets) {
  for (const auto& [targets, count] : {std::pair(LoraTargets::kAll, 4),
                                       {LoraTargets::kAttention, 2},
                                       {LoraTargets::kMlp, 2},
                                       {LoraTargets::kQkv, 1}}) {
    Plan plan = plan_of(Trained::kLora);
    plan.train.targets = targets;
    EXPECT_EQ(kernels(job_of(plan), KernelId::kMatmulWeightGradient), 2 * count) << name(targets);
  }
}

// The factors of a layer are reduced together; nothing else is.
TEST(Lora, ReducesOneSmallUnitPerLayer) {
  Plan plan = plan_of(Trained::kLora);
  plan.parallel.dp = 4;
  plan.batch.micro_batch = 1;
  plan.zero_stage = 2;
  const Job job = job_of(plan);
  int reductions = 0;
  for (const Node& node : job.classes[0].program.nodes)
    if (node.role.action == Action::kReduce && node.role.phase == Phase::kBackward) {
      ++reductions;
      EXPECT_EQ(node.role.part, Part::kShared);
    }
  EXPECT_EQ(reductions, 1);
  for (const UnitHome& home : job.classes[0].homes)
    EXPECT_EQ(home.is_frozen, !job.units[home.unit].name.ends_with("shared"));
}

TEST(Lora, IsRefusedInOneLine) {
  const auto refusal = [](auto change) {
    Plan plan = plan_of(Trained::kLora);
    change(plan);
    return illegal(plan, shape_of(load_model(plan.model))).value_or("");
  };
  EXPECT_EQ(refusal([](Plan& p) { p.train.what = Trained::kLayers, p.train.rank = 4; }),
            "a rank, alpha or targets of LoRA need train lora, not layers");
  EXPECT_EQ(refusal([](Plan& p) { p.train.rank = 0; }), "rank of LoRA 0 is outside 1..1024");
  EXPECT_EQ(refusal([](Plan& p) { p.train.rank = 65; }),
            "factors of rank 65 are larger than the model's matrices; rank 64 fits");
  EXPECT_EQ(refusal([](Plan& p) { p.gather = Gather::in_tiles(2); }),
            "the factors of LoRA are not cut into tiles: they need 1, not 2");
  EXPECT_EQ(refusal([](Plan& p) { p.optimizer.kind = OptimizerKind::kAdamW8Bit; }),
            "LoRA leaves the matrices frozen that adamw-8bit has another rule for; adamw trains");
  EXPECT_EQ(refusal([](Plan& p) {
              p.parallel.dp = 2;
              p.batch.micro_batch = 2;
              p.zero_stage = 3;
              p.gather = Gather::kOwned;
            }),
            "the factors of LoRA are cut over all ranks: no one rank owns them");
}

}  // namespace
}  // namespace zplan
