// A model as people type it: "Llama 3 8B", "meta-llama/Meta-Llama-3-8B-Instruct", "GPT-3 175B".
// Case, the signs between words, the organisation of a name of the hub, and words that leave the
// shape as it is (hf, instruct, chat, base ..) tell no models apart; other words and numbers do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"

namespace zplan {

// "Qwen/Qwen2.5-7B" -> qwen, 2.5, 7b: without the organisation.
std::vector<std::string> model_words(std::string_view name);

struct SpelledModel {
  ModelConfig model;
  std::string sentence;  // what was made of the text; empty where only signs and case differ
};

// Nothing: it means no model of the catalogue. Throws Error, one line, where it leaves open which
// of them.
std::optional<SpelledModel> spelled_model(std::string_view typed);

// "; did you mean "gpt2"?" or nothing.
std::string nearest_model_name(std::string_view typed);

}  // namespace zplan
