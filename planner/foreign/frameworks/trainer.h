// The arguments of Hugging Face's Trainer, TrainingArguments, as JSON or YAML. With `deepspeed` or
// `fsdp_config` in them they go with that configuration; alone replicas are whole (DDP).
#pragma once

#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

bool is_trainer(const JsonNode& root);
Setup read_trainer(const JsonNode& root, const Surroundings& around);
std::vector<KeyValue> trainer_keys(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
