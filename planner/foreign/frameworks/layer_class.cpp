#include "planner/foreign/frameworks/layer_class.h"

namespace zplan {
namespace {

struct Row {
  std::string_view type, layer;
};
constexpr Row kRows[] = {{"bert", "BertLayer"},
                         {"bloom", "BloomBlock"},
                         {"deepseek_v2", "DeepseekV2DecoderLayer"},
                         {"deepseek_v3", "DeepseekV3DecoderLayer"},
                         {"gemma", "GemmaDecoderLayer"},
                         {"gemma2", "Gemma2DecoderLayer"},
                         {"gemma3_text", "Gemma3DecoderLayer"},
                         {"gpt2", "GPT2Block"},
                         {"gpt_neox", "GPTNeoXLayer"},
                         {"gpt_oss", "GptOssDecoderLayer"},
                         {"llama", "LlamaDecoderLayer"},
                         {"llama4_text", "Llama4TextDecoderLayer"},
                         {"mistral", "MistralDecoderLayer"},
                         {"mixtral", "MixtralDecoderLayer"},
                         {"opt", "OPTDecoderLayer"},
                         {"phi3", "Phi3DecoderLayer"},
                         {"qwen2", "Qwen2DecoderLayer"},
                         {"qwen3", "Qwen3DecoderLayer"},
                         {"qwen3_moe", "Qwen3MoeDecoderLayer"},
                         {"t5", "T5Block"}};

}  // namespace

std::string_view layer_class(std::string_view model_type) {
  for (const Row& row : kRows)
    if (row.type == model_type) return row.layer;
  return {};
}

}  // namespace zplan
