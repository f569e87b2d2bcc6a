// A training script's keys say what it trains: LoRA in the spellings of PEFT's LoraConfig and
// adapter_config.json, TRL, LLaMA-Factory, Axolotl and Megatron-Bridge's `peft` section. The rows
// of trained_keys.cpp have a key each. What the Plan does not have is a finding.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "planner/foreign/frameworks/setup.h"

namespace zplan {

// `find` looks a key up; `add` takes what there is to say of it.
struct TrainedKeys {
  std::function<std::optional<JsonNode>(std::string_view key)> find;
  std::function<void(Trouble trouble, std::string_view key, std::string message)> add;
};

// Returns nothing where no key says that factors are trained.
std::optional<TrainedChoice> read_trained_keys(const TrainedKeys& keys, const ModelConfig& model);

// PEFT's adapter_config.json, as pins: decisions that are pinned already stay. What it says and a
// plan does not have is added to the findings.
void take_adapter(const std::string& path, const ModelConfig& model, Pins& pins,
                  std::vector<Finding>& findings);

// An export brings this for its script: arguments of PEFT's LoraConfig and, of 4 bits, of
// transformers' BitsAndBytesConfig. Empty: no factors are trained.
std::string lora_json(const Plan& plan);

// Sets in the plan those choices of what to train that are asked for.
void take_trained(const Pins& asked, Plan& plan);

}  // namespace zplan
