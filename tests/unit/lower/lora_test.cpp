// Frozen parameters and the factors of LoRA, of matrices and of experts: what is kept of them, and
// which products are made.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "models/model_formulas.h"
#include "planner/lower/lower.h"
#include "planner/program/text/text.h"

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

// Of these those beside the products of attention.
std::int64_t factors_of_attention(const ModelConfig& m, std::int64_t rank) {
  return m.layers * rank * (2 * m.hidden + m.qkv_width() + m.attention_width());
}

// Elements of the factors beside the gated products of experts, each of which has its own.
std::int64_t factors_of_experts(const ModelConfig& m, std::int64_t rank) {
  const ExpertShape& e = *m.experts;
  return m.expert_layers() * e.count * rank * ((m.hidden + 2 * e.ffn) + (e.ffn + m.hidden));
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

// 2 bytes of each parameter and 14 more of each factor, as of other models.
TEST(LoraOfExperts, EachExpertHasFactorsOfItsOwn) {
  const ModelConfig model = load_model("tiny-moe");
  Plan plan = plan_of(Trained::kLora, "tiny-moe");
  for (const LoraTargets targets : {LoraTargets::kAll, LoraTargets::kAttention}) {
    SCOPED_TRACE(name(targets));
    plan.train.targets = targets;
    std::int64_t trained = factors_of_attention(model, 8);
    if (targets == LoraTargets::kAll) trained += factors_of_experts(model, 8);
    auto bytes = state_bytes(job_of(plan));
    EXPECT_EQ(bytes[Category::kParameters], 2 * (parameter_count(model) + trained));
    EXPECT_EQ(bytes[Category::kGradients], 2 * trained);
    EXPECT_EQ(bytes[Category::kOptimizer], 12 * trained);
  }
}

// The router and the matrices of experts are frozen; gradients go through them to the input.
TEST(LoraOfExperts, MakesNoGradientsOfFrozenMatrices) {
  using enum KernelId;
  Plan plan = plan_of(Trained::kLora, "tiny-moe");
  for (const bool has_mlp : {true, false}) {
    SCOPED_TRACE(has_mlp);
    plan.train.targets = has_mlp ? LoraTargets::kAll : LoraTargets::kAttention;
    const Job job = job_of(plan);
    EXPECT_EQ(kernels(job, kGroupedForward), has_mlp ? 3 * 2 : 2);
    EXPECT_EQ(kernels(job, kGroupedInputGradient), has_mlp ? 3 * 2 : 2);
    EXPECT_EQ(kernels(job, kGroupedWeightGradient), has_mlp ? 2 * 2 : 0) << "of the factors alone";
    EXPECT_EQ(kernels(job, kMatmulWeightGradient), 2 * 2) << "of queries to values, of projection";
    EXPECT_EQ(kernels(job, kChooseExpertsBackward), 1);
    for (const Node& node : job.classes[0].program.nodes)
      if (node.kind == OpKind::kKernel && node.kernel == kGroupedWeightGradient) {
        EXPECT_TRUE(node.role.action == Action::kLoraDownWeight ||
                    node.role.action == Action::kLoraUpWeight);
      }
  }
}

// Factors of experts are reduced over the replicas that have the same experts, the others over all.
TEST(LoraOfExperts, AreWhereTheExpertsAre) {
  const ModelConfig model = load_model("tiny-moe");
  Plan plan = plan_of(Trained::kLora, "tiny-moe");
  plan.parallel.dp = 4;
  plan.parallel.ep = 2;
  plan.expert_imbalance = 0;
  plan.zero_stage = 2;
  const Job job = job_of(plan);
  std::map<Part, int> reductions;
  for (const Node& node : job.classes[0].program.nodes)
    if (node.role.action == Action::kReduce && node.role.phase == Phase::kBackward)
      ++reductions[node.role.part];
  EXPECT_EQ(reductions, (std::map<Part, int>{{Part::kShared, 1}, {Part::kExpertFactors, 1}}));
  for (const UnitHome& home : job.classes[0].homes) {
    const Unit& unit = job.units[home.unit];
    const bool of_experts = unit.name.ends_with("expert_factors");
    EXPECT_EQ(home.is_frozen, !of_experts && !unit.name.ends_with("shared")) << unit.name;
    if (home.is_frozen) continue;
    const std::int64_t all =
        of_experts ? factors_of_experts(model, 8) / 2 : factors_of_attention(model, 8);
    EXPECT_EQ(unit.elements * model.layers, all) << unit.name;
    EXPECT_EQ(job.mesh.size(unit.shards), of_experts ? 2 : 4) << unit.name;
  }
  EXPECT_EQ(to_text(parse_zprog(to_text(job), "x")), to_text(job));
}

// Of two ranks each has half of the columns of the second factor of the first products and of the
// rows of the first factor of the second ones; the others are whole.
TEST(LoraOfExperts, AreCutOverTensorParallelRanksAsTheirMatricesAre) {
  const ModelConfig model = load_model("tiny-moe");
  const ExpertShape& experts = *model.experts;
  Plan plan = plan_of(Trained::kLora, "tiny-moe");
  plan.parallel.dp = plan.parallel.ep = plan.parallel.tp = 2;
  plan.expert_imbalance = 0;
  const auto unit_of = [](const Job& job) {
    for (const Unit& unit : job.units)
      if (unit.name.ends_with("expert_factors")) return unit;
    return Unit{};
  };
  const std::int64_t own = experts.count / 2 * 8;
  const Unit cut = unit_of(job_of(plan));
  EXPECT_EQ(cut.elements, own * (2 * model.hidden + 3 * experts.ffn / 2));
  EXPECT_EQ(cut.shared_elements, own * 2 * model.hidden);
  // Whole experts: each of the four ranks has one.
  plan.parallel.expert_tp = 1;
  plan.parallel.sequence_parallel = true;
  plan.parallel.ep = 4;
  plan.expert_imbalance = 0;
  const Unit whole = unit_of(job_of(plan));
  EXPECT_EQ(whole.elements, own / 2 * (2 * model.hidden + 3 * experts.ffn));
  EXPECT_EQ(whole.shared_elements, 0);
}

TEST(LoraOfExperts, LeavesTheBiasOfTheChoiceAsItIs) {
  using enum KernelId;
  const Job all = job_of(plan_of(Trained::kAll, "tiny-deepseek"));
  const Job lora = job_of(plan_of(Trained::kLora, "tiny-deepseek"));
  EXPECT_GT(kernels(all, kBalanceBias), 0);
  EXPECT_EQ(kernels(lora, kBalanceBias), 0);
  EXPECT_EQ(kernels(lora, kCountChoices), 0);
  EXPECT_GT(kernels(lora, kBalanceExperts), 0) << "the auxiliary loss is part of the loss";
}

TEST(Lora, IsRefusedInOneLine) {
  const auto refusal = [](auto change) {
    Plan plan = plan_of(Trained::kLora);
    change(plan);
    return illegal(plan, shape_of(load_model(plan.model))).value_or("");
  };
  EXPECT_EQ(refusal([](Plan& p) { p.train.what = Trained::kLayers, p.train.rank = 4; }),
            "a rank, alpha, targets or base of LoRA need train lora, not layers");
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

// Frozen parameters have no fp32 copy, since [Zhao23]'s fp32 parameters are the trained ones.
TEST(LoraBase, IsKeptInTheComputeTypeWhateverTheRecipe) {
  const ModelConfig model = load_model("tiny-llama");
  Plan plan = plan_of(Trained::kLora);
  plan.parallel.dp = 2;
  plan.zero_stage = 3;
  plan.precision = *find_recipe("fsdp", plan.kernel_set);
  const std::int64_t trained = factors(model, 8);
  auto bytes = state_bytes(job_of(plan));
  EXPECT_EQ(bytes[Category::kParameters], 2 * parameter_count(model) / 2 + 4 * trained / 2);
  const auto casts = [](const Job& job) { return kernels(job, KernelId::kCast); };
  const int casts_of_factors = casts(job_of(plan));
  plan.train.base = BaseType::kF32;
  bytes = state_bytes(job_of(plan));
  EXPECT_EQ(bytes[Category::kParameters], 4 * (parameter_count(model) + trained) / 2);
  EXPECT_GT(casts(job_of(plan)), casts_of_factors);
}

// 4 bits and a 16th of a float of each element of the layers' matrices; with double quantisation a
// 64th of a byte and a 16,384th of a float [Dettmers23 sec 3]. All else has the compute type.
TEST(LoraBase, OfFourBitsHasCodesAndScales) {
  const ModelConfig model = load_model("llama3-8b");
  Plan plan = plan_of(Trained::kLora, "llama3-8b", "cuda.sm90.bf16");
  const std::int64_t in_layers = model.layers * (layer_parameter_count(model) - 2 * model.hidden);
  const std::int64_t others = parameter_count(model) - in_layers + factors(model, 8);
  plan.train.base = BaseType::kNf4;
  EXPECT_EQ(state_bytes(job_of(plan))[Category::kParameters],
            in_layers / 2 + in_layers / 16 + 2 * others);
  plan.train.base = BaseType::kFp4Double;
  EXPECT_EQ(state_bytes(job_of(plan))[Category::kParameters],
            in_layers / 2 + in_layers / 64 + in_layers / 4096 + 2 * others);
}

// FSDP knows of the codes alone [FsdpQlora]: each rank has all scales.
TEST(LoraBase, ShardsCodesAndKeepsScalesWhole) {
  Plan plan = plan_of(Trained::kLora, "llama3-8b", "cuda.sm90.bf16");
  plan.train.base = BaseType::kNf4;
  plan.parallel.dp = 2;
  plan.zero_stage = 3;
  plan.placement.params = Tier::kCpu;
  const Job job = job_of(plan);
  for (const Buffer& b : job.classes[0].program.buffers) {
    if (b.name.starts_with("scale.")) {
      EXPECT_EQ(b.shards, 1) << b.name;
      EXPECT_EQ(b.tier, Tier::kGpu) << b.name;
    }
    if (b.name == "param.layer") {
      EXPECT_EQ(b.shards, 2);
      EXPECT_EQ(b.dtype, DType::kU8);
      EXPECT_EQ(b.tier, Tier::kCpu);
    }
  }
}

// Each product dequantises its matrix, forward and backward.
TEST(LoraBase, IsDequantisedForEachProduct) {
  Plan plan = plan_of(Trained::kLora);
  plan.train.base = BaseType::kNf4;
  const Job job = job_of(plan);
  EXPECT_EQ(kernels(job, KernelId::kDequantise), 2 * 4) << "qkv, projection and the MLP's two";
  plan.train.base = BaseType::kNf4Double;
  EXPECT_EQ(kernels(job_of(plan), KernelId::kDequantiseDouble), 2 * 4);
  plan.train.base = BaseType::kCompute;
  EXPECT_EQ(kernels(job_of(plan), KernelId::kDequantise), 0);
}

TEST(LoraBase, IsTheSameInTheTextForm) {
  Plan plan = plan_of(Trained::kLora);
  plan.train.base = BaseType::kFp4;
  const std::string text = to_text(job_of(plan));
  EXPECT_NE(text.find("frozen fp4"), std::string::npos);
}

TEST(LoraSaved, TrainsWhatIsOutsideTheLayersInFull) {
  const ModelConfig model = load_model("tiny-llama");
  Plan plan = plan_of(Trained::kLora);
  const auto optimizer = [&](LoraSaved saved) {
    plan.train.saved = saved;
    return state_bytes(job_of(plan))[Category::kOptimizer];
  };
  const std::int64_t table = model.vocab * model.hidden, own = factors(model, 8);
  EXPECT_EQ(optimizer(LoraSaved::kEmbedding), 12 * (own + table));
  EXPECT_EQ(optimizer(LoraSaved::kHead), 12 * (own + table));
  EXPECT_EQ(optimizer(LoraSaved::kBoth), 12 * (own + 2 * table));
}

TEST(LoraBase, IsRefusedInOneLine) {
  const auto refusal = [](BaseType base, auto change) {
    Plan plan = plan_of(Trained::kLora);
    plan.train.base = base;
    change(plan);
    return illegal(plan, shape_of(load_model(plan.model))).value_or("");
  };
  EXPECT_EQ(refusal(BaseType::kF32, [](Plan&) {}),
            "a base in f32 is cast as it is gathered: it needs ZeRO stage 3, not 0");
  EXPECT_EQ(refusal(BaseType::kF32, [](Plan& p) { p.kernel_set = "cpu.f32"; }),
            "kernel set cpu.f32 computes in f32: a base in f32 needs 16-bit kernels; compute");
  EXPECT_EQ(
      refusal(BaseType::kNf4Double, [](Plan& p) { p.parallel.tp = 2; }),
      "double quantisation has a constant for 256 blocks of a whole matrix, which tp 2 and ep "
      "1 cut: it needs tp 1 and ep 1; base nf4 does not");
  EXPECT_EQ(refusal(BaseType::kNf4, [](Plan& p) { p.parallel.tp = 2; }),
            "tp 2 cuts the blocks of 64 elements that share a scale; base compute has none");
  EXPECT_EQ(refusal(BaseType::kNf4, [](Plan& p) { p.train.what = Trained::kAll; }),
            "a rank, alpha, targets or base of LoRA need train lora, not all");
  EXPECT_EQ(refusal(BaseType::kCompute,
                    [](Plan& p) {
                      p.model = "gpt2";
                      p.train.saved = LoraSaved::kHead;
                    }),
            "the model's head is its embedding: what is saved is both, not the head alone");
}

// Factors that stay for the whole layer and come whole from the CPU do not lie where the units that
// come and go meanwhile would be put.
TEST(Lora, FactorsOfExpertsThatNoRanksShareHaveARingOfTheirOwn) {
  const auto has_own_ring = [](int ep) {
    Plan plan = plan_of(Trained::kLora, "tiny-moe", "cpu.f32");
    plan.parallel.dp = 2;
    plan.parallel.ep = ep;
    plan.zero_stage = 3;
    plan.placement.params = Tier::kCpu;
    const Job job = job_of(plan);
    return std::ranges::any_of(job.classes[0].program.buffers, [](const Buffer& b) {
      return b.name.starts_with("shard.expert_factors");
    });
  };
  EXPECT_TRUE(has_own_ring(2));
  EXPECT_FALSE(has_own_ring(1));
}

}  // namespace
}  // namespace zplan
