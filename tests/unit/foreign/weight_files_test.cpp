// The table of tensors of transformers, and folders that are laid out with it.
#include "planner/foreign/hugging_face/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/foreign/hugging_face/safetensors.h"
#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

KeptTensor kept(const std::string& pattern, std::int64_t layer, const Shape& shape,
                DType dtype = DType::kF32) {
  std::string name = pattern;
  if (const std::size_t at = name.find("{}"); at != name.npos)
    name.replace(at, 2, std::to_string(layer));
  return {name, pattern, layer, shape, dtype};
}

const ModelConfig kLlamaModel = load_model("tiny-llama");

TEST(TensorRows, CutQueriesKeysAndValuesAndTransposeThem) {
  ModelConfig model = kLlamaModel;
  model.hidden = 64;
  model.heads = 4;
  model.kv_heads = 2;
  model.own_head_size = 0;
  const auto seen = published_tensor(
      "llama", model, kept("model.layers.{}.self_attn.qkv_proj.weight", 3, {64, 128}));
  ASSERT_TRUE(seen);
  ASSERT_EQ(seen->parts.size(), 3u);
  EXPECT_EQ(seen->parts[1].name, "model.layers.3.self_attn.k_proj.weight");
  EXPECT_THAT(seen->parts[0].shape, ElementsAre(64, 64));
  EXPECT_THAT(seen->parts[1].shape, ElementsAre(32, 64));
  EXPECT_EQ(seen->parts[2].column, 96);
  EXPECT_TRUE(seen->parts[2].transposed);
  const auto bias =
      published_tensor("qwen2", model, kept("model.layers.{}.self_attn.qkv_proj.bias", 0, {128}));
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->parts[2].name, "model.layers.0.self_attn.v_proj.bias");
  EXPECT_THAT(bias->parts[2].shape, ElementsAre(32));
  EXPECT_FALSE(bias->parts[2].transposed);
}

TEST(TensorRows, LeaveGpt2AsItIs) {
  const ModelConfig model = load_model("gpt2-124m");
  const auto seen =
      published_tensor("gpt2", model, kept("transformer.h.{}.attn.c_attn.weight", 11, {768, 2304}));
  ASSERT_TRUE(seen);
  ASSERT_EQ(seen->parts.size(), 1u);
  EXPECT_EQ(seen->parts[0].name, "transformer.h.11.attn.c_attn.weight");
  EXPECT_THAT(seen->parts[0].shape, ElementsAre(768, 2304));
  EXPECT_FALSE(seen->parts[0].transposed);
}

TEST(TensorRows, GiveEachExpertItsOwn) {
  const ModelConfig model = load_model("mixtral-8x7b");
  const std::int64_t h = 4096, f = 14336;
  const auto up = published_tensor(
      "mixtral", model, kept("model.layers.{}.mlp.experts.gate_up_proj.weight", 1, {8, h, 2 * f}));
  ASSERT_TRUE(up);
  ASSERT_EQ(up->parts.size(), 16u);
  EXPECT_EQ(up->parts[15].name, "model.layers.1.block_sparse_moe.experts.7.w3.weight");
  EXPECT_EQ(up->parts[15].matrix, 7);
  EXPECT_EQ(up->parts[15].column, f);
  EXPECT_THAT(up->parts[15].shape, ElementsAre(f, h));
  const auto down = published_tensor(
      "mixtral", model, kept("model.layers.{}.mlp.experts.down_proj.weight", 1, {8, f * h}));
  ASSERT_TRUE(down);
  EXPECT_EQ(down->rows, f);
  EXPECT_EQ(down->parts[2].name, "model.layers.1.block_sparse_moe.experts.2.w2.weight");
  EXPECT_THAT(down->parts[2].shape, ElementsAre(h, f));
}

TEST(TensorRows, HaveNoPlaceForOthers) {
  const KeptTensor sinks = kept("model.layers.{}.self_attn.sinks.weight", 0, {4});
  EXPECT_FALSE(published_tensor("llama", kLlamaModel, sinks));
  EXPECT_FALSE(published_tensor("bloom", kLlamaModel, kept("model.norm.weight", 0, {64})));
  EXPECT_THAT(refusal([&] {
                lay_out_weights("out", {"llama", "{}"}, kLlamaModel, std::vector{sinks});
              }),
              HasSubstr("\"model.layers.0.self_attn.sinks.weight\""));
}

// Files as they begin, read again; what is larger stands first.
TEST(WeightFiles, AreCutWhereTheyBecomeTooLarge) {
  const std::vector<KeptTensor> tensors = {kept("model.norm.weight", 0, {64}, DType::kBf16),
                                           kept("model.embed_tokens.weight", 0, {256, 64}),
                                           kept("lm_head.weight", 0, {256, 64})};
  const ModelFiles files = lay_out_weights("out", {"llama", R"({"model_type": "llama"})"},
                                           kLlamaModel, tensors, 100'000);
  ASSERT_EQ(files.files.size(), 2u);
  EXPECT_EQ(files.files[1].name, "model-00002-of-00002.safetensors");
  std::vector<std::string> names;
  for (const ModelFile& file : files.files)
    for (const StoredTensor& tensor : parse_safetensors(file.start, file.bytes, file.name))
      names.push_back(tensor.name);
  EXPECT_THAT(names,
              ElementsAre("model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"));
  EXPECT_EQ(files.tensors[0].blocks[0].file, 1u);
  EXPECT_EQ(files.tensors[0].blocks[0].offset, files.files[1].bytes - 128);
  ASSERT_EQ(files.texts.size(), 2u);
  EXPECT_EQ(files.texts[0].first, "model.safetensors.index.json");
  EXPECT_THAT(files.texts[0].second, HasSubstr("\"total_size\": 131200"));
  EXPECT_THAT(files.texts[1].second, HasSubstr("\"LlamaForCausalLM\""));
}

}  // namespace
}  // namespace zplan
