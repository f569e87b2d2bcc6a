// The frameworks whose configurations are read and written, a row each.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

struct Framework {
  std::string_view name;   // "deepspeed"
  std::string_view title;  // "DeepSpeed"
  // Whether a configuration looks like one of it.
  bool (*is_of)(const JsonNode& root);
  // The model that it describes, where it does; null: it never does.
  std::optional<ModelConfig> (*model)(const JsonNode& root);
  // What it comes to. Throws Error on values of wrong types.
  Setup (*read)(const JsonNode& root, const Surroundings& around);
  // The keys that say a plan, as far as they can.
  std::vector<KeyValue> (*keys)(const Plan& plan, const ModelConfig& model);
  // What the training script is told besides: the sequence, recomputation.
  Pins (*said)(const Plan& plan);
  // The keys as a file, by this name.
  std::string_view file;
  std::string (*render)(const std::vector<KeyValue>& keys);
  // The script of scripts/ that trains with it; empty: the framework's own program does.
  std::string_view script;
  std::string_view program;
  bool has_auto = false;       // values that Hugging Face's Trainer fills in where it starts it
  bool holds_model = false;    // the configuration does, else config.json beside the script
  bool starts_itself = false;  // `accelerate launch` starts the ranks, with its file
};

std::span<const Framework> frameworks();
// Throws Error naming the nearest.
const Framework& find_framework(std::string_view name);

// The object that the keys make: {"a.b": 1} is {"a": {"b": 1}}.
std::string nested_json(const std::vector<KeyValue>& keys);
// The same as TOML, of sections of one level, and as YAML, of one or two.
std::string toml_text(const std::vector<KeyValue>& keys);
std::string yaml_text(const std::vector<KeyValue>& keys);
// Options of a command, one a line; of a switch that is on its name.
std::string command_options(const std::vector<KeyValue>& keys);

}  // namespace zplan
