// Megatron-Bridge's configuration: the sections of its ConfigContainer in YAML, all of them as
// training saves it (run_config.yaml) or those that differ from a recipe, of the version in
// keys/megatron_bridge.json. Its fields are options of Megatron-LM under other names
// (bridge_fields.h), so that what they do is read and written in megatron.h alone.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

bool is_megatron_bridge(const JsonNode& root);

std::optional<ModelConfig> megatron_bridge_model(const JsonNode& root);

Setup read_megatron_bridge(const JsonNode& root, const Surroundings& around);

std::vector<KeyValue> megatron_bridge_keys(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
