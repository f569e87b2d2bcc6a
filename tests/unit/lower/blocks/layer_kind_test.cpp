// The layers of two families, block by block, forward and backward.
#include "planner/lower/blocks/layer_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/block_pass.h"

namespace zplan {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing_support::BlockBench;
using testing_support::BlockPass;
using Lines = std::vector<std::string>;

Plan plan_of(const char* kernel_set = "cpu.f32") {
  Plan plan;
  plan.kernel_set = kernel_set;
  plan.batch = {.global_batch = 4, .micro_batch = 2, .sequence = 32};
  return plan;
}

Lines forward(const Plan& plan, const char* model) {
  BlockBench bench(plan, load_model(model));
  const LayerKind& layer = bench.decoder.layers()[0];
  BlockPass pass(bench.stage, bench.decoder.params(), layer.values);
  const View x = bench.stage.transient("x", {64, 64}, DType::kF32);
  layer.forward(pass, x, bench.stage.transient("y", {64, 64}, DType::kF32));
  return bench.take();
}

struct Emitted {
  Lines nodes, closed;
};
Emitted backward(const Plan& plan, const char* model, Backward parts) {
  BlockBench bench(plan, load_model(model));
  const LayerKind& layer = bench.decoder.layers()[0];
  BlockPass pass(bench.stage, bench.decoder.params(), layer.values);
  pass.enter(Phase::kBackward, parts);
  const View x = bench.stage.transient("x", {64, 64}, DType::kF32);
  layer.backward(pass, x, bench.stage.transient("dx", {64, 64}, DType::kF32));
  return {bench.take(), pass.closed};
}

bool is_of_weights(const std::string& node) {
  return node.find(".weight_gradient") != node.npos || node.find(".bias_gradient") != node.npos;
}

TEST(LayerKind, GptNormalisesBeforeAttentionAndMlpAndAddsBehindThem) {
  const std::string h = "transformer.h.{}.";
  EXPECT_THAT(forward(plan_of(), "tiny-gpt"),
              ElementsAre("forward.attention_norm.compute layer_norm_forward x " + h +
                              "ln_1.weight " + h + "ln_1.bias =norm1 =mean1 =rstd1",
                          "forward.qkv.compute linear_forward norm1 " + h + "attn.c_attn.weight " +
                              h + "attn.c_attn.bias =qkv",
                          "forward.attention.compute attention_forward qkv =attention =lse",
                          "forward.projection.compute matmul_forward attention " + h +
                              "attn.c_proj.weight =projection",
                          "forward.attention_residual.compute bias_residual_add x projection " + h +
                              "attn.c_proj.bias =middle",
                          "forward.mlp_norm.compute layer_norm_forward middle " + h +
                              "ln_2.weight " + h + "ln_2.bias =norm2 =mean2 =rstd2",
                          "forward.fc1.compute linear_forward norm2 " + h + "mlp.c_fc.weight " + h +
                              "mlp.c_fc.bias =fc1",
                          "forward.gelu.compute gelu_forward fc1 =gelu",
                          "forward.fc2.compute matmul_forward gelu " + h + "mlp.c_proj.weight =fc2",
                          "forward.mlp_residual.compute bias_residual_add middle fc2 " + h +
                              "mlp.c_proj.bias =y"));
}

TEST(LayerKind, LlamaRotatesAndGatesAndHasNoBiases) {
  const std::string l = "model.layers.{}.";
  EXPECT_THAT(
      forward(plan_of(), "tiny-llama"),
      ElementsAre(
          "forward.attention_norm.compute rms_norm_forward x " + l +
              "input_layernorm.weight =norm1 =rstd1",
          "forward.qkv.compute matmul_forward norm1 " + l + "self_attn.qkv_proj.weight =qkv",
          "forward.rope.compute rope +qkv",
          "forward.attention.compute attention_forward qkv =attention =lse",
          "forward.projection.compute matmul_forward attention " + l +
              "self_attn.o_proj.weight =projection",
          "forward.attention_residual.compute residual_add x projection =middle",
          "forward.mlp_norm.compute rms_norm_forward middle " + l +
              "post_attention_layernorm.weight =norm2 =rstd2",
          "forward.fc1.compute matmul_forward norm2 " + l + "mlp.gate_up_proj.weight =fc1",
          "forward.gelu.compute swiglu_forward fc1 =gelu",
          "forward.fc2.compute matmul_forward gelu " + l + "mlp.down_proj.weight =fc2",
          "forward.mlp_residual.compute residual_add middle fc2 =y"));
}

TEST(LayerKind, NeighboursAreOneKernelWhereTheSetFuses) {
  for (const char* model : {"tiny-gpt", "tiny-llama", "tiny-mla"}) {
    const Lines apart = forward(plan_of(), model), fused = forward(plan_of("cpu.f32.fused"), model);
    const std::size_t gelu = model == std::string("tiny-gpt") ? 1 : 0;  // SwiGLU stands alone
    EXPECT_EQ(fused.size(), apart.size() - 1 - gelu) << model;
  }
}

// What the parts have beside what they have together: a copy of each branch's gradient, and what
// the norms gave of their weights' gradients.
bool is_between_parts(const std::string& node) {
  return node.find(".move") != node.npos || node.find(" accumulate ") != node.npos;
}

// Without the names of what is between the parts.
Lines nodes_of(const Plan& plan, const char* model, Backward parts) {
  Lines nodes;
  for (const std::string& node : backward(plan, model, parts).nodes)
    if (!is_between_parts(node)) nodes.push_back(node.substr(0, node.find(' ')));
  return nodes;
}

// Together they stand product by product, the gradient of the weight first.
TEST(LayerKind, BackwardComesWholeOrInTwoParts) {
  for (const char* kernels : {"cpu.f32", "cpu.f32.fused", "cuda.sm80.bf16.unfused"}) {
    for (const char* model : {"tiny-gpt", "tiny-llama"}) {
      Plan plan = plan_of(kernels);
      plan.dropout = find_kernel_set(kernels).dropout;
      const Lines whole = backward(plan, model, Backward::kWhole).nodes;
      Lines inputs, weights;
      std::copy_if(whole.begin(), whole.end(), std::back_inserter(weights), is_of_weights);
      std::remove_copy_if(whole.begin(), whole.end(), std::back_inserter(inputs), is_of_weights);
      for (Lines* nodes : {&inputs, &weights})
        for (std::string& node : *nodes) node.resize(node.find(' '));
      EXPECT_EQ(nodes_of(plan, model, Backward::kInput), inputs) << model;
      EXPECT_EQ(nodes_of(plan, model, Backward::kWeight), weights) << model;
      EXPECT_EQ(weights.size(), model == std::string("tiny-gpt") ? 6U : 4U);
      for (const char* product : {"fc2", "fc1", "projection", "qkv"}) {
        const auto at = std::find_if(whole.begin(), whole.end(), [&](const std::string& node) {
          return node.starts_with(std::string("backward.") + product + ".weight_gradient");
        });
        ASSERT_NE(at, whole.end()) << product;
        EXPECT_TRUE((at + 1)->starts_with(std::string("backward.") + product + ".input_gradient"))
            << *(at + 1);
      }
    }
  }
}

// The gradient of the layer goes on changing, and a norm gives all its gradients in one kernel.
TEST(LayerKind, TheFirstPartOfBackwardLeavesGradientsForTheSecond) {
  Lines between;
  for (const Backward part : {Backward::kInput, Backward::kWeight})
    for (const std::string& node : backward(plan_of(), "tiny-gpt", part).nodes)
      if (is_between_parts(node)) between.push_back(node);
  const std::string h = "transformer.h.{}.";
  EXPECT_THAT(
      between,
      ElementsAre("backward.mlp_residual.move dx =handed.mlp_residual",
                  "backward.attention_residual.move dx =handed.attention_residual",
                  "backward.mlp_norm.weight_gradient accumulate +grad." + h + "ln_2.weight",
                  "backward.mlp_norm.bias_gradient accumulate +grad." + h + "ln_2.bias",
                  "backward.attention_norm.weight_gradient accumulate +grad." + h + "ln_1.weight",
                  "backward.attention_norm.bias_gradient accumulate +grad." + h + "ln_1.bias"));
  const Lines weights = backward(plan_of(), "tiny-gpt", Backward::kWeight).nodes;
  EXPECT_THAT(weights, Contains("backward.fc2.weight_gradient matmul_weight_gradient gelu "
                                "handed.mlp_residual =grad." +
                                h + "mlp.c_proj.weight"));
}

TEST(LayerKind, BackwardIsDoneWithEachProductAndThenWithItsNorm) {
  const std::string l = "model.layers.{}.";
  EXPECT_THAT(backward(plan_of(), "tiny-llama", Backward::kWhole).closed,
              ElementsAre(l + "mlp.down_proj.weight", l + "mlp.gate_up_proj.weight",
                          l + "post_attention_layernorm.weight", l + "self_attn.o_proj.weight",
                          l + "self_attn.qkv_proj.weight", l + "input_layernorm.weight"));
}

TEST(LayerKind, LatentsStandBeforeTheProductsByHead) {
  const std::string a = "model.layers.{}.self_attn.";
  const Lines up = forward(plan_of(), "tiny-mla");
  EXPECT_THAT(
      Lines(up.begin() + 1, up.begin() + 11),
      ElementsAre(
          "forward.query_down.compute matmul_forward norm1 " + a + "q_a_proj.weight =query_latent",
          "forward.key_down.compute matmul_forward norm1 " + a + "kv_a_proj.weight =key_latent",
          "forward.key_rope.compute matmul_forward norm1 " + a + "k_rope_proj.weight =key_rope",
          "forward.query_norm.compute rms_norm_forward query_latent " + a +
              "q_a_layernorm.weight =query_latent.normed =query_latent.rstd",
          "forward.key_norm.compute rms_norm_forward key_latent " + a +
              "kv_a_layernorm.weight =key_latent.normed =key_latent.rstd",
          "forward.query_up.compute matmul_forward query_latent.normed " + a +
              "q_b_proj.weight =query",
          "forward.key_up.compute matmul_forward key_latent.normed " + a +
              "kv_b_proj.weight =key_value",
          "forward.qkv.compute latent_heads_forward query key_value key_rope =qkv",
          "forward.attention.compute attention_forward qkv =attention =lse",
          "forward.projection.compute matmul_forward attention " + a +
              "o_proj.weight =projection"));
}

// Three products add up to the gradient of what all of them read.
TEST(LayerKind, LatentsAddToOneGradientAfterTheHeads) {
  const std::string a = "model.layers.{}.self_attn.";
  const Lines down = backward(plan_of(), "tiny-mla", Backward::kInput).nodes;
  const auto at = [&](const std::string& node) {
    return std::find(down.begin(), down.end(), node) - down.begin();
  };
  const auto heads =
      at("backward.qkv.input_gradient latent_heads_backward d.qkv "
         "=handed.query_up =handed.key_up =handed.key_rope");
  const auto rope = at("backward.key_rope.input_gradient linear_input_gradient handed.key_rope " +
                       a + "k_rope_proj.weight =d.norm");
  const auto key = at("backward.key_down.input_gradient linear_input_gradient handed.key_down " +
                      a + "kv_a_proj.weight +d.norm");
  const auto query =
      at("backward.query_down.input_gradient linear_input_gradient "
         "handed.query_down " +
         a + "q_a_proj.weight +d.norm");
  EXPECT_LT(heads, rope);
  EXPECT_LT(rope, key);
  EXPECT_LT(key, query);
  EXPECT_LT(query, std::ssize(down));
}

// Only the part that needs them brings the ranks together again.
TEST(LayerKind, SequenceParallelRanksComeTogetherForEachPart) {
  Plan plan = plan_of();
  plan.parallel.tp = 2;
  plan.parallel.sequence_parallel = true;
  const auto count = [&](Backward parts, const char* action) {
    const Lines nodes = backward(plan, "tiny-gpt", parts).nodes;
    return std::count_if(nodes.begin(), nodes.end(),
                         [&](const std::string& node) { return node.find(action) != node.npos; });
  };
  EXPECT_EQ(count(Backward::kWhole, ".gather_ranks"), 4);  // of each branch: dy and x
  EXPECT_EQ(count(Backward::kInput, ".gather_ranks"), 2);
  EXPECT_EQ(count(Backward::kWeight, ".gather_ranks"), 4);
  EXPECT_EQ(count(Backward::kInput, ".sum_ranks"), 2);
  EXPECT_EQ(count(Backward::kWeight, ".sum_ranks"), 0);
}

TEST(LayerKind, TilesAddToWhatIsClearedBeforeThem) {
  Plan plan = plan_of();
  plan.gather = Gather::in_tiles(2);
  const auto has = [](const Lines& nodes, const std::string& node) {
    return std::count(nodes.begin(), nodes.end(), node) == 1;
  };
  const Lines up = forward(plan, "tiny-llama");
  const Lines down = backward(plan, "tiny-llama", Backward::kWhole).nodes;
  const std::string l = "model.layers.{}.";
  EXPECT_TRUE(has(up, "forward.projection.zero fill_zero =projection"));
  EXPECT_TRUE(has(up, "forward.projection.compute matmul_forward attention " + l +
                          "self_attn.o_proj.weight +projection"));
  EXPECT_TRUE(has(down, "backward.mlp_norm.zero fill_zero =d.norm"));
  EXPECT_TRUE(has(down, "backward.fc1.input_gradient linear_input_gradient d.up " + l +
                            "mlp.gate_up_proj.weight +d.norm"));
}

TEST(LayerKind, UsesAreTheNormsAndProductsInForwardOrder) {
  const BlockBench bench(plan_of(), load_model("tiny-gpt"));
  Lines names;
  for (const Use& use : bench.decoder.layers()[0].uses())
    names.push_back(bench.decoder.params().spec(use.param).name.substr(17));
  EXPECT_THAT(names, ElementsAre("ln_1.weight", "attn.c_attn.weight", "attn.c_proj.weight",
                                 "ln_2.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"));
}

}  // namespace
}  // namespace zplan
