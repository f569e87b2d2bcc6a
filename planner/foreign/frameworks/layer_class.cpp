#include "planner/foreign/frameworks/layer_class.h"

namespace zplan {

std::string_view layer_class(const ModelConfig& model) {
  if (model.architecture == Architecture::kGpt) return "GPT2Block";
  if (model.latent) return "DeepseekV3DecoderLayer";
  if (model.layer.attention_sinks) return "GptOssDecoderLayer";
  if (model.layer.post_norms) return model.qk_norm ? "Gemma3DecoderLayer" : "Gemma2DecoderLayer";
  if (model.experts) return model.qk_norm ? "Qwen3MoeDecoderLayer" : "MixtralDecoderLayer";
  if (model.qk_norm) return "Qwen3DecoderLayer";
  return model.biases == Biases::kQkv ? "Qwen2DecoderLayer" : "LlamaDecoderLayer";
}

}  // namespace zplan
