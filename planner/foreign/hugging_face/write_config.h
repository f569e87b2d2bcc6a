// ModelConfig -> the config.json that transformers builds it from. The family is the first whose
// file, read again (hugging_face.h), gives the model back, field by field; so the readers alone say
// what a family can be.
//
// Not compared: the default batch and, of positions that are not learned, the sequence, of which no
// config.json speaks, and router_bias_rate, which transformers does not have.
#pragma once

#include <string>
#include <vector>

#include "models/model_config.h"

namespace zplan {

struct WrittenConfig {
  std::string model_type;                // of the family, or of the nearest one
  std::string text;                      // of the file; empty: no family has such layers
  std::vector<std::string> differences;  // of the nearest: "biases qkv and not none"
  std::vector<std::string> notes;        // what transformers does otherwise: a sentence each
};

// `drops`: it trains with dropout, a decision of the plan.
WrittenConfig write_hugging_face(const ModelConfig& model, bool drops = false);

// A file of that kind as the plan has it: with dropout, or without.
std::string with_dropout(const std::string& text, bool drops);

// Of fields_of(): those in which models differ but for what is not compared.
std::vector<std::string> config_differences(const ModelConfig& wanted, const ModelConfig& got);

}  // namespace zplan
