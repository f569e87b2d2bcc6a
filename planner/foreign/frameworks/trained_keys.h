// What a training script trains, as its keys say it: LoRA in the spellings of PEFT's LoraConfig and
// adapter_config.json, TRL, LLaMA-Factory, Axolotl and Megatron-Bridge's `peft` section. The rows
// of trained_keys.cpp have a key each. What the Plan does not have is a finding.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "planner/foreign/frameworks/setup.h"

namespace zplan {

// Where keys are found, and who is told of them.
struct TrainedKeys {
  std::function<std::optional<JsonNode>(std::string_view key)> find;
  std::function<void(Trouble trouble, std::string_view key, std::string message)> add;
};

// Nothing: no key says that factors are trained.
std::optional<TrainedChoice> read_trained_keys(const TrainedKeys& keys, const ModelConfig& model);

// PEFT's adapter_config.json, as pins: decisions that are pinned already stay. What it says and a
// plan does not have is added to the findings.
void take_adapter(const std::string& path, const ModelConfig& model, Pins& pins,
                  std::vector<Finding>& findings);

// What an export brings for its script: arguments of PEFT's LoraConfig and, of 4 bits, of
// transformers' BitsAndBytesConfig. Empty: no factors are trained.
std::string lora_json(const Plan& plan);

// What of it is asked for.
void take_trained(const Pins& asked, Plan& plan);

}  // namespace zplan
