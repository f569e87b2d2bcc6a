#include "planner/foreign/hugging_face/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model_formulas.h"
#include "planner/core/text.h"
#include "planner/foreign/model_file.h"
#include "tests/support/source_dir.h"
#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

HuggingFaceModel read(const std::string& text) {
  return read_hugging_face(parse_json(text, "config.json"), "config.json", "mine");
}

// A file with these keys beside its type.
std::string file(const std::string& type, const std::string& keys = "") {
  return "{\"model_type\": \"" + type + "\"" + (keys.empty() ? "" : ", " + keys) + "}";
}

std::string published(const std::string& name) {
  return read_text_file(std::string(ZPLAN_SOURCE_DIR) + "/tests/data/published_configs/" + name +
                        ".json");
}

std::string refused(const std::string& text) {
  return refusal([&] { read(text); });
}

TEST(HuggingFace, TakesWhatAFileLeavesOutFromTheClass) {
  const ModelConfig llama = read(file("llama")).model;
  EXPECT_EQ(parameter_count(llama), 6'738'415'616);  // the class is Llama 7B
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.rope_theta, 10000);
  const ModelConfig wider = read(file("llama", R"("num_attention_heads": 64)")).model;
  EXPECT_EQ(wider.kv_heads, 64) << "as many as heads, not as many as the class has heads";
  EXPECT_EQ(wider.head_size(), 64);
  EXPECT_TRUE(read(file("gpt2")).model.tied_embeddings);
  EXPECT_TRUE(read(file("gemma")).model.tied_embeddings);
  EXPECT_EQ(read(file("gpt2", R"("n_embd": 1024, "n_head": 16)")).model.ffn, 4096);
}

TEST(HuggingFace, ReadsNullAsNoValueWhateverTheDefault) {
  EXPECT_EQ(read(file("mistral")).model.layer.window, 4096);
  EXPECT_EQ(read(file("mistral", R"("sliding_window": null)")).model.layer.window, 0);
  EXPECT_GT(read(file("deepseek_v3")).model.latent->query_rank, 0);
  EXPECT_EQ(read(file("deepseek_v3", R"("q_lora_rank": null)")).model.latent->query_rank, 0);
}

TEST(HuggingFace, ReadsBothSpellingsOfPositions) {
  const ModelConfig four =
      read(file("llama", R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0})"))
          .model;
  const ModelConfig five =
      read(file("llama", R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "linear",
                            "factor": 4.0})"))
          .model;
  for (const ModelConfig& model : {four, five}) {
    EXPECT_EQ(model.rope_theta, 500000);
    EXPECT_EQ(model.layer.rope_stretch, 4);
  }
  const ModelConfig share =
      read(file("phi3", R"("rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.75})"))
          .model;
  EXPECT_EQ(share.layer.rotary_size, 72) << "of 96";
}

TEST(HuggingFace, ReadsPositionsOfEachKindOfLayer) {
  const std::string own = R"("rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})";
  const std::string flat = R"("rope_scaling": {"rope_type": "linear", "factor": 8.0},
      "rope_theta": 1000000, "rope_local_base_freq": 10000)";
  for (const std::string& keys : {own, flat}) {
    const ModelConfig model = read(file("gemma3_text", keys)).model;
    EXPECT_EQ(model.rope_theta, 1000000);
    EXPECT_EQ(model.layer.local_rope_theta, 10000);
    EXPECT_EQ(model.layer.rope_stretch, 8);
  }
}

TEST(HuggingFace, SaysWhichWayOfStretchingPositionsItLeavesOut) {
  for (const char* type : {"llama3", "yarn", "dynamic", "longrope"}) {
    const HuggingFaceModel model = read(file(
        "llama", R"("rope_scaling": {"factor": 8.0, "rope_type": ")" + std::string(type) + "\"}"));
    EXPECT_THAT(model.left_out, ElementsAre(AllOf(HasSubstr(type), HasSubstr("no bytes"))));
  }
  const HuggingFaceModel plain =
      read(file("llama", R"("rope_parameters": {"rope_theta": 1e4, "rope_type": "default"})"));
  EXPECT_THAT(plain.left_out, IsEmpty());
  EXPECT_THAT(refused(file("llama", R"("rope_scaling": {"rope_type": "spiral"})")),
              HasSubstr("/rope_scaling/rope_type: expected one of"));
}

TEST(HuggingFace, TurnsLayerTypesIntoTurns) {
  const auto typed = [](const std::string& types) {
    return file("gemma2", R"("num_hidden_layers": 4, "layer_types": [)" + types + "]");
  };
  const std::string with = "\"sliding_attention\"", out = "\"full_attention\"";
  const auto list = [&](const std::string& letters) {
    std::string text;
    for (const char c : letters) text += (text.empty() ? "" : ", ") + (c == 's' ? with : out);
    return text;
  };
  const auto layer = [&](const std::string& letters) {
    return read(typed(list(letters))).model.layer;
  };
  EXPECT_EQ(layer("sfsf").full_layers, 1);
  EXPECT_EQ(layer("sssf").window_layers, 3);
  EXPECT_EQ(layer("sffs").full_layers, 2);
  EXPECT_EQ(layer("ssss").full_layers, 0);
  EXPECT_EQ(layer("ssss").window, 4096);
  EXPECT_EQ(layer("ffff").window, 0);
  EXPECT_EQ(layer("fsfs").full_layers, 1);
  EXPECT_TRUE(layer("fsfs").full_layers_first);
  EXPECT_EQ(layer("fssf").window_layers, 2);
  EXPECT_THAT(refused(typed(list("sfss"))),
              HasSubstr("/layer_types: expected layers in equal turns"));
  EXPECT_THAT(refused(typed(list("sfs"))),
              HasSubstr("expected one for each of the 4 layers, got 3"));
  EXPECT_THAT(refused(typed(list("sfs") + ", \"chunked_attention\"")),
              HasSubstr("/layer_types/3: expected one of"));
}

TEST(HuggingFace, HasWindowsOfQwenOnlyWhereTheFileAsksForThem) {
  EXPECT_EQ(read(file("qwen2", R"("sliding_window": 4096)")).model.layer.window, 0);
  const std::string asked = R"("use_sliding_window": true, "sliding_window": 4096)";
  EXPECT_EQ(read(file("qwen2", asked + R"(, "max_window_layers": 0)")).model.layer.window, 4096);
  EXPECT_EQ(read(file("qwen2", asked + R"(, "max_window_layers": 32)")).model.layer.window, 0);
  EXPECT_THAT(refused(file("qwen2", asked + R"(, "max_window_layers": 28)")),
              HasSubstr("expected turns of up to 16 layers, got 32"));
}

TEST(HuggingFace, PlacesExperts) {
  const auto experts = [](const std::string& keys) {
    return *read(file("qwen3_moe", keys)).model.experts;
  };
  EXPECT_EQ(experts("").dense_layers, 0);
  EXPECT_EQ(experts(R"("mlp_only_layers": [0, 1])").dense_layers, 2);
  EXPECT_EQ(experts(R"("decoder_sparse_step": 2)").every, 2);
  EXPECT_FALSE(experts(R"("decoder_sparse_step": 2)").is_in(0));
  EXPECT_TRUE(experts(R"("decoder_sparse_step": 2)").is_in(1));
  EXPECT_THAT(refused(file("qwen3_moe", R"("mlp_only_layers": [5])")),
              HasSubstr("/mlp_only_layers/0: expected 0: layers with an MLP are the first ones"));
  EXPECT_THAT(refused(file("deepseek_v2", R"("num_experts_per_tok": 6, "moe_layer_freq": 2)")),
              HasSubstr("/moe_layer_freq: expected 1"));
}

TEST(HuggingFace, RefusesByNameWhatCannotBeLowered) {
  EXPECT_THAT(refused(file("mllama")), HasSubstr("attend to the vision tower"));
  EXPECT_THAT(refused(file("gemma3n")),
              HasSubstr("config.json:1:16: /model_type: expected a model that can be planned"));
  EXPECT_THAT(refused(file("apertus")), HasSubstr("its MLP has xIELU"));
  EXPECT_THAT(refused(file("lama")), HasSubstr("did you mean \"llama\"?"));
  EXPECT_THAT(refused(file("chatglm", R"("auto_map": {"AutoModel": "modeling_chatglm.X"})")),
              HasSubstr("its own code (auto_map) would have to be run"));
  EXPECT_THAT(refused(file("llama", R"("mlp_bias": true)")),
              HasSubstr("/mlp_bias: expected biases of attention where the MLP has some"));
  EXPECT_THAT(refused(file("cohere", R"("use_qk_norm": true)")), HasSubstr("/use_qk_norm"));
  EXPECT_THAT(refused(file("olmo", R"("clip_qkv": 8.0)")), HasSubstr("/clip_qkv"));
  EXPECT_THAT(refused(file("granite", R"("embedding_multiplier": 1.3)")),
              HasSubstr("/embedding_multiplier: expected a number whose square is a whole one"));
  EXPECT_THAT(refused(file("smollm3", R"("no_rope_layers": [1, 0, 1, 1])")),
              HasSubstr("/no_rope_layers: expected the last of each so many layers"));
  EXPECT_THAT(refused(file("cohere2", R"("layer_types": null, "sliding_window": null)")),
              HasSubstr("expected layers with a window"));
  EXPECT_THAT(refused(file("llama", R"("hidden_act": "laplace")")), HasSubstr("/hidden_act"));
  EXPECT_THAT(refused(file("opt", R"("word_embed_proj_dim": 512)")),
              HasSubstr("/word_embed_proj_dim: expected the hidden size, 768"));
  EXPECT_THAT(refused(file("opt", R"("do_layer_norm_before": false)")),
              HasSubstr("/do_layer_norm_before: expected true: norms stand before"));
  EXPECT_THAT(refused(file("bert", R"("is_decoder": true)")), HasSubstr("/is_decoder"));
  EXPECT_THAT(refused(file("llama", R"("hidden_size": 4095)")),
              HasSubstr("expected heads to divide hidden"));
  EXPECT_THAT(refused(file("llama", R"("hidden_size": 4096.5)")),
              HasSubstr("/hidden_size: expected an integer"));
}

TEST(HuggingFace, SaysWhatItLeavesOut) {
  const auto left_out = [](const std::string& text) { return read(text).left_out; };
  EXPECT_THAT(left_out(file("llama")), IsEmpty());
  EXPECT_THAT(left_out(file("deepseek_v3", R"("num_nextn_predict_layers": 1)")),
              Contains(HasSubstr("/num_nextn_predict_layers is left out")));
  EXPECT_THAT(left_out(file("gpt2", R"("resid_pdrop": 0.1)")), Contains(HasSubstr("dropout")));
  EXPECT_THAT(left_out(file("llama", R"("quantization_config": {"quant_method": "fp8"})")),
              Contains(HasSubstr("quantization_config")));
  EXPECT_THAT(left_out(file("llama", R"("logit_scale": 2, "use_cache": true, "use_mrope": false)")),
              ElementsAre("unknown and left out: logit_scale"));
  EXPECT_THAT(left_out(R"({"model_type": "voxtral", "audio_config": {}, "text_config":
                           {"model_type": "llama"}})"),
              Contains("left out: audio_config and what joins it to the text part"));
}

// Without the tower's object the same file is a text model.
TEST(HuggingFace, AssumesAnImageForEachSequenceOfAModelWithAVisionTower) {
  const std::string text =
      R"("hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2)";
  const HuggingFaceModel seen = read(file(
      "qwen2_5_vl", text + R"(, "vision_config": {"depth": 4, "hidden_size": 1280, "num_heads": 16,
                              "fullatt_block_indexes": [1, 3]})"));
  ASSERT_TRUE(seen.model.vision.has_value());
  EXPECT_EQ(seen.model.vision->images, 1);
  EXPECT_EQ(seen.model.vision->patches, 32 * 32);
  EXPECT_EQ(seen.model.vision->window, 8 * 8);
  EXPECT_EQ(seen.model.vision->full_every, 2);
  EXPECT_EQ(seen.model.vision->projector, "rmsnorm merge 5120+bias gelu 2048+bias");
  std::vector<std::string> assumed;
  for (const Assumption& one : seen.assumed) assumed.push_back(one.sentence);
  EXPECT_THAT(assumed, Contains(HasSubstr("one of 1024 patches for each sequence, 256 tokens")));
  EXPECT_FALSE(read(file("qwen2_5_vl", text)).model.vision.has_value());
}

TEST(HuggingFace, ReadsTheTextPartBesideTowers) {
  const auto part = [](const std::string& type, const std::string& text) {
    return R"({"model_type": ")" + type + R"(", "vision_config": {"depth": 2}, "text_config": {)" +
           text + "}}";
  };
  const HuggingFaceModel llava = read(part("llava", R"("vocab_size": 32064)"));
  EXPECT_EQ(parameter_count(llava.model) - vision_parameter_count(llava.model),
            parameter_count(read(file("llama", R"("vocab_size": 32064)")).model));
  EXPECT_EQ(llava.model.vision->layers, 2);
  EXPECT_THAT(llava.left_out, IsEmpty());
  EXPECT_THAT(read(part("internvl", R"("model_type": "qwen2")")).left_out,
              ElementsAre("left out: vision_config and what joins it to the text part"));
  EXPECT_EQ(read(part("some_new_type", R"("model_type": "qwen3")")).model.qk_norm, true);
  EXPECT_THAT(refused(part("some_new_type", "")),
              HasSubstr("/text_config: expected a \"model_type\""));
  EXPECT_THAT(refused(part("llava", R"("model_type": "qwen9")")),
              HasSubstr("/text_config/model_type: expected one of"));
  const ModelConfig flat = read(file("qwen2_5_vl", R"("vision_config": {}, "hidden_size": 2048,
      "num_attention_heads": 16, "num_key_value_heads": 2, "tie_word_embeddings": true,
      "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vision_token_id": 1)"))
                               .model;
  EXPECT_EQ(flat.biases, Biases::kQkv);
  EXPECT_TRUE(flat.tied_embeddings);
  const HuggingFaceModel scout = read(part("llama4", R"("num_hidden_layers": 48)"));
  EXPECT_EQ(scout.model.experts->count, 16);
  const HuggingFaceModel kimi = read(part("kimi_k25", R"("model_type": "kimi_k2")"));
  EXPECT_TRUE(kimi.model.latent.has_value());
}

// Parameters of the models that transformers builds, with the biases of routers that are buffers
// there; where the keys are those of a published file, they are those of its weights.
TEST(HuggingFace, CountsFamiliesWithExperts) {
  const auto count = [](const std::string& type, const std::string& keys) {
    return parameter_count(read(file(type, keys)).model);
  };
  EXPECT_EQ(count("qwen2_moe", R"("num_experts": 60, "moe_intermediate_size": 1408,
                   "shared_expert_intermediate_size": 5632)"),
            14'315'784'192);  // Qwen1.5-MoE-A2.7B
  EXPECT_EQ(count("glm4_moe", R"("attention_bias": true, "head_dim": 128,
                   "partial_rotary_factor": 0.5, "num_nextn_predict_layers": 1)"),
            106'852'251'264);  // GLM-4.5-Air
  EXPECT_EQ(count("minimax_m2", R"("rotary_dim": 64, "num_mtp_modules": 3)"),
            228'689'748'992 + 62 * 256);                                     // MiniMax-M2
  EXPECT_EQ(count("olmoe", R"("intermediate_size": 1024)"), 6'919'161'856);  // OLMoE-1B-7B
  EXPECT_EQ(count("phimoe", R"("attention_bias": true, "lm_head_bias": true)"),
            41'873'153'344);  // Phi-3.5-MoE
  EXPECT_EQ(count("granitemoe", R"("attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
                   "hidden_size": 1024, "intermediate_size": 512, "logits_scaling": 6.0,
                   "num_attention_heads": 16, "num_experts_per_tok": 8, "num_hidden_layers": 24,
                   "num_key_value_heads": 8, "num_local_experts": 32, "residual_multiplier": 0.22,
                   "tie_word_embeddings": true, "vocab_size": 49152)"),
            1'334'625'280);  // granite-3.1-1b-a400m
  EXPECT_EQ(count("ernie4_5_moe", ""), 21'825'437'888);
  EXPECT_EQ(count("dots1", R"("n_routed_experts": 128, "num_experts_per_tok": 6,
                   "n_shared_experts": 2, "first_k_dense_replace": 1, "hidden_size": 4096)"),
            142'774'381'696);  // dots.llm1
  EXPECT_EQ(count("deepseek_v32", ""), 671'877'944'064);
  EXPECT_EQ(count("glm_moe_dsa", ""), 743'911'218'432);  // GLM-5
}

TEST(HuggingFace, EachLayerHasAnIndexerOfItsOwn) {
  EXPECT_EQ(read(file("deepseek_v32")).model.index->keys, 2048);
  EXPECT_THAT(refused(file("glm_moe_dsa", R"("indexer_types": ["full", "shared"])")),
              HasSubstr("/indexer_types/1: expected \"full\": each layer has an indexer"));
  EXPECT_THAT(refused(file("glm_moe_dsa", R"("index_topk_freq": 4)")),
              HasSubstr("expected 1: each layer has an indexer"));
  EXPECT_THAT(refused(file("glm_moe_dsa", R"("mlp_layer_types": ["dense", "sparse"])")),
              HasSubstr("layers with an MLP are the first ones"));
}

TEST(HuggingFace, ReadsOneKeyForAllHeadsAndBiasesOfAttentionAlone) {
  EXPECT_EQ(read(file("gpt_bigcode")).model.kv_heads, 1);
  EXPECT_EQ(read(file("gpt_bigcode", R"("multi_query": false)")).model.kv_heads, 12);
  EXPECT_EQ(read(file("llama", R"("attention_bias": true)")).model.biases, Biases::kAttention);
  const HuggingFaceModel mimo = read(file("mimo", R"("num_nextn_predict_layers": 1)"));
  EXPECT_EQ(mimo.model.biases, Biases::kQkv);
  EXPECT_THAT(mimo.left_out, Contains(HasSubstr("/num_nextn_predict_layers is left out")));
}

TEST(HuggingFace, ReadsWhatExpertsHaveBesides) {
  const ModelConfig qwen = read(file("qwen2_moe")).model;
  EXPECT_TRUE(qwen.experts->shared_gate);
  EXPECT_FALSE(qwen.experts->renormalised);
  EXPECT_EQ(qwen.biases, Biases::kQkv);
  EXPECT_EQ(read(file("qwen2_moe", R"("qkv_bias": false)")).model.biases, Biases::kNone);
  const ModelConfig glm = read(file("glm4_moe", R"("head_dim": 128, "use_qk_norm": true)")).model;
  EXPECT_TRUE(glm.qk_norm);
  EXPECT_EQ(glm.layer.rotary_size, 64) << "half of a head, as the class has it";
  EXPECT_EQ(glm.experts->scores, Scores::kSigmoid);
  EXPECT_TRUE(glm.experts->selection_bias);
  EXPECT_EQ(glm.biases, Biases::kNone);
  EXPECT_TRUE(read(file("minimax_m2")).model.layer.whole_qk_norm);
  EXPECT_EQ(read(file("ernie4_5_moe")).model.experts->shared_ffn, 2 * 1536);
  EXPECT_THAT(refused(file("ernie4_5_moe", R"("moe_layer_end_index": 20)")),
              HasSubstr("/moe_layer_end_index: expected -1 or 27"));
  EXPECT_THAT(refused(file("olmoe", R"("clip_qkv": 8.0)")), HasSubstr("/clip_qkv: expected null"));
  EXPECT_THAT(read(file("phimoe")).left_out, Contains(HasSubstr("sparse mixing")));
  EXPECT_THAT(read(file("minimax_m2", R"("num_mtp_modules": 3)")).left_out,
              Contains(HasSubstr("/num_mtp_modules is left out")));
}

// The key that ties embeddings may stand beside the part that has the sizes.
TEST(HuggingFace, LooksForTiedEmbeddingsAroundTheTextPart) {
  const auto tied = [](const std::string& around, const std::string& inside) {
    return read(R"({"model_type": "qwen3_vl", "vision_config": {})" + around +
                R"(, "text_config": {"model_type": "qwen3_vl_text")" + inside + "}}")
        .model.tied_embeddings;
  };
  const std::string yes = R"(, "tie_word_embeddings": true)",
                    no = R"(, "tie_word_embeddings": false)";
  EXPECT_TRUE(tied(yes, ""));
  EXPECT_FALSE(tied(yes, no));
  EXPECT_TRUE(tied(no, yes));
}

TEST(HuggingFace, PutsPositionsOfRobertaBehindThoseOfPadding) {
  const ModelConfig model =
      read(file("roberta", R"("max_position_embeddings": 514, "type_vocab_size": 1)")).model;
  EXPECT_EQ(model.sequence, 512);
  EXPECT_EQ(model.layer.unused_positions, 2);
  EXPECT_EQ(model.layer.segments, 1);
  EXPECT_EQ(parameter_count(model), 124'697'433);  // RobertaForMaskedLM of roberta-base
  EXPECT_THAT(refused(file("xlm-roberta", R"("max_position_embeddings": 2)")),
              HasSubstr("expected more than 2 positions"));
}

TEST(HuggingFace, ReadsBlenderbotAsTheCatalogueHasIt) {
  const ModelConfig model = read(file("blenderbot", R"("scale_embedding": true)")).model;
  EXPECT_EQ(parameter_count(model), parameter_count(load_model("blenderbot-3b")));
  EXPECT_THAT(refused(file("blenderbot", R"("decoder_ffn_dim": 5120)")),
              HasSubstr("/decoder_ffn_dim: expected 10240, as in the encoder"));
}

TEST(HuggingFace, HasNoWordForGenerationNumbersAndInfinity) {
  const std::string text = file("llama", R"("eos_token_id": [1, 2], "use_cache": true,
      "torch_dtype": "bfloat16", "temperature": 0.6, "do_sample": true, "top_p": 0.9,
      "time_step_limit": [0.0, Infinity])");
  const auto read_python = [](const std::string& words) {
    return read_hugging_face(parse_python_json(words, "config.json"), "config.json", "mine");
  };
  EXPECT_THAT(read_python(text).left_out, ElementsAre("unknown and left out: time_step_limit"));
  EXPECT_THAT(refusal([&] { read_python(file("llama", R"("rope_theta": Infinity)")); }),
              HasSubstr("/rope_theta: expected a number from"));
}

TEST(HuggingFace, AssumesASequenceAndABatch) {
  const auto sequence = [](const std::string& keys) {
    return read(file("llama", keys)).model.sequence;
  };
  EXPECT_EQ(sequence(R"("max_position_embeddings": 2048)"), 2048);
  EXPECT_EQ(sequence(R"("max_position_embeddings": 131072)"), 8192);
  EXPECT_EQ(sequence(R"("max_position_embeddings": 131072, "rope_scaling": {"rope_type": "yarn",
                        "factor": 32, "original_max_position_embeddings": 4096})"),
            4096);
  EXPECT_EQ(read(file("gpt2", R"("n_positions": 40960)")).model.sequence, 40960)
      << "learned positions are parameters";
  const HuggingFaceModel model = read(file("llama", R"("max_position_embeddings": 131072)"));
  EXPECT_EQ(model.model.global_batch, 512);
  EXPECT_EQ(read(file("llama", R"("max_position_embeddings": 3000)")).model.global_batch, 1024)
      << "1,398 rounded down to a power of 2";
  ASSERT_EQ(model.assumed.size(), 2u);
  EXPECT_EQ(model.assumed[0].pointer, "/batch/sequence");
  EXPECT_THAT(model.assumed[0].sentence, HasSubstr("8192 tokens, of 131072 positions"));
  EXPECT_THAT(model.assumed[1].sentence, HasSubstr("512 sequences"));
  EXPECT_THAT(model.model.source_of("sequence"), HasSubstr("assumed"));
}

TEST(HuggingFace, ReadsNormsBiasesAndFactorsOfDenseFamilies) {
  const auto model = [](const char* type, const std::string& keys = "") {
    return read(file(type, keys)).model;
  };
  EXPECT_TRUE(model("olmo2").layer.only_post_norms && model("olmo2").layer.whole_qk_norm);
  EXPECT_EQ(model("olmo").norm, Norm::kLayerNormFixed);
  EXPECT_EQ(model("olmo3").layer.window_layers, 3);
  EXPECT_EQ(model("smollm3").layer.unturned_every, 4);
  EXPECT_EQ(model("exaone4").layer.unturned_every, 4);
  EXPECT_EQ(model("exaone4", R"("sliding_window": null)").layer.unturned_every, 0);
  EXPECT_EQ(model("exaone4", R"("sliding_window_pattern": "LLG")").layer.unturned_every, 3);
  EXPECT_EQ(model("cohere").layer.logit_divisor, 16 * kFactorUnit);
  EXPECT_EQ(model("cohere2").layer.parallel_residual, ParallelResidual::kOneNorm);
  EXPECT_EQ(model("llama", R"("attention_bias": true)").biases, Biases::kAttention);
  EXPECT_EQ(model("glm").biases, Biases::kQkv);
  EXPECT_EQ(model("glm").layer.rotary_size, 64);
  EXPECT_TRUE(model("glm4").layer.post_norms);
  EXPECT_EQ(model("seed_oss").biases, Biases::kQkv);
  EXPECT_EQ(model("seed_oss", R"("attention_out_bias": true)").biases, Biases::kAttention);
  EXPECT_TRUE(model("phi").layer.head_bias);
  EXPECT_EQ(model("nemotron").layer.activation, Activation::kSquaredRelu);
  EXPECT_FALSE(model("arcee").gated_mlp);
  EXPECT_TRUE(model("cwm").layer.full_layers_first);
  EXPECT_EQ(parameter_count(model("falcon")), 6'921'720'704) << "the class is Falcon 7B";
  EXPECT_EQ(model("falcon").layer.parallel_residual, ParallelResidual::kOneNorm);
  EXPECT_EQ(parameter_count(read(published("falcon-40b")).model), 41'303'293'952);
  EXPECT_EQ(parameter_count(read(published("mpt-7b")).model), 6'649'286'656);
  EXPECT_EQ(parameter_count(read(published("gpt_bigcode-santacoder")).model), 1'124'886'528);
  EXPECT_EQ(parameter_count(read(published("Devstral-2-123B-Instruct-2512")).model),
            125'025'988'608);
  const LayerFeatures bert = model("modernbert").layer;
  EXPECT_EQ(bert.window, 65) << "64 on either side, and the query's own";
  EXPECT_EQ(bert.local_rope_theta, 10000);
  EXPECT_TRUE(bert.bare_first_branch && bert.head_transform);
  const LayerFeatures granite =
      model("granite", R"("embedding_multiplier": 12.0, "attention_multiplier": 0.015625,
                          "residual_multiplier": 0.22, "logits_scaling": 8.0)")
          .layer;
  EXPECT_EQ(granite.embedding_square, 144);
  EXPECT_EQ(granite.attention_divisor, 4096);
  EXPECT_EQ(granite.residual_factor, 220'000'000);
  EXPECT_EQ(granite.logit_divisor, 8 * kFactorUnit);
}

TEST(HuggingFace, IsNamedAsItsFolder) {
  EXPECT_EQ(hugging_face_name("/models/Llama-3.1-8B/config.json"), "Llama-3.1-8B");
  EXPECT_EQ(hugging_face_name("/x/models--Qwen--Qwen3-8B/snapshots/0a1b/config.json"), "Qwen3-8B");
  EXPECT_EQ(hugging_face_name("/models/qwen3-8b.json"), "qwen3-8b");
  EXPECT_EQ(hugging_face_name("/config.json"), "model");
}

TEST(HuggingFace, HasARuleForEveryTypeOfTheTable) {
  for (const std::string& type : hugging_face_types()) {
    // Their classes say no number of experts, none for a token, or no size of a head.
    if (type == "deepseek_v2" || type == "dots1" || type == "glm4_moe" || type == "glm4v_moe_text")
      continue;
    EXPECT_GT(parameter_count(read(file(type)).model), 0) << type;
  }
}

}  // namespace
}  // namespace zplan
