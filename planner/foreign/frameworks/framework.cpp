#include "planner/foreign/frameworks/framework.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/foreign/frameworks/accelerate.h"
#include "planner/foreign/frameworks/deepspeed.h"
#include "planner/foreign/frameworks/fsdp_options.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/megatron_bridge.h"
#include "planner/foreign/frameworks/megatron_model.h"
#include "planner/foreign/frameworks/torchtitan.h"
#include "planner/foreign/frameworks/trainer.h"

namespace zplan {
namespace {

// Sets what lora.json tells the script.
void say_factors(const Plan& plan, Pins& said) {
  if (!plan.train.has_lora()) return;
  for (const Decision& row : kChoices)
    if (row.pointer.starts_with("/train/")) said.set_setting(row, row.field.get(plan));
}

// What a script for Hugging Face models is told, dropout by the model's config.json.
Pins said_to_script(const Plan& plan) {
  Pins said;
  said.set("/batch/sequence", plan.batch.sequence);
  const Recompute mode = plan.all_full() ? Recompute::kFull : Recompute::kNone;
  said.set("/recompute", std::vector<RecomputeRun>{{mode}});
  said.set("/dropout", plan.dropout);
  say_factors(plan, said);
  return said;
}

// Batches and clipping, too.
Pins said_of_batch(const Plan& plan) {
  Pins said = said_to_script(plan);
  said.set("/batch/micro_batch", plan.batch.micro_batch);
  said.set("/batch/global_batch", plan.batch.global_batch);
  said.set("/clip", plan.clip);
  return said;
}

// All is in the configuration.
Pins said_nothing(const Plan&) { return {}; }

// All but dropout, which is in the model's config.json, and factors.
Pins said_dropout(const Plan& plan) {
  Pins said;
  said.set("/dropout", plan.dropout);
  say_factors(plan, said);
  return said;
}

constexpr Framework kFrameworks[] = {
    {.name = "deepspeed",
     .title = "DeepSpeed",
     .is_of = is_deepspeed,
     .model = nullptr,
     .read = read_deepspeed,
     .keys = deepspeed_keys,
     .said = said_to_script,
     .file = "ds_config.json",
     .render = nested_json,
     .script = "train_deepspeed.py",
     .program = {},
     .has_auto = true},
    {.name = "megatron",
     .title = "Megatron-LM",
     .is_of = is_megatron,
     .model = megatron_model,
     .read = read_megatron,
     .keys = megatron_keys,
     .said = said_nothing,
     .file = "arguments.txt",
     .render = command_options,
     .script = {},
     .program = "pretrain_gpt.py $(cat arguments.txt)"},
    {.name = "megatron-bridge",
     .title = "Megatron-Bridge",
     .is_of = is_megatron_bridge,
     .model = megatron_bridge_model,
     .read = read_megatron_bridge,
     .keys = megatron_bridge_keys,
     .said = said_nothing,
     .file = "config.yaml",
     .render = yaml_text,
     .script = "train_megatron_bridge.py",
     .program = {},
     .holds_model = true},
    {.name = "torchtitan",
     .title = "torchtitan",
     .is_of = is_torchtitan,
     .model = torchtitan_model,
     .read = read_torchtitan,
     .keys = torchtitan_keys,
     .said = said_nothing,
     .file = "train.toml",
     .render = toml_text,
     .script = {},
     .program = "-m torchtitan.train --job.config_file train.toml"},
    {.name = "accelerate",
     .title = "Accelerate",
     .is_of = is_accelerate,
     .model = nullptr,
     .read = read_accelerate,
     .keys = accelerate_keys,
     .said = said_of_batch,
     .file = "accelerate.yaml",
     .render = yaml_text,
     .script = "train_accelerate.py",
     .program = {},
     .starts_itself = true},
    {.name = "hf",
     .title = "Transformers",
     .is_of = is_trainer,
     .model = nullptr,
     .read = read_trainer,
     .keys = trainer_keys,
     .said = said_to_script,
     .file = "training_arguments.json",
     .render = nested_json,
     .script = "train_trainer.py",
     .program = {}},
    {.name = "fsdp",
     .title = "PyTorch FSDP2",
     .is_of = is_fsdp_options,
     .model = nullptr,
     .read = read_fsdp_options,
     .keys = fsdp_options_keys,
     .said = said_dropout,
     .file = "fsdp.json",
     .render = nested_json,
     .script = "train_fsdp.py",
     .program = {}},
};

}  // namespace

std::span<const Framework> frameworks() { return kFrameworks; }

const Framework& find_framework(std::string_view name) {
  std::vector<std::string> known;
  for (const Framework& framework : kFrameworks) {
    if (framework.name == name) return framework;
    known.emplace_back(framework.name);
  }
  throw_bad_input(fmt::format("expected a framework, {}, got {}{}", joined(known, " or "),
                              in_quotes(name), did_you_mean(name, known)));
}

using Json = nlohmann::ordered_json;

Json nested(const std::vector<KeyValue>& keys) {
  Json root = Json::object();
  for (const KeyValue& each : keys) {
    Json* at = &root;
    std::string_view rest = each.key;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      at = &(*at)[std::string(rest.substr(0, dot))];
      rest = rest.substr(dot + 1);
    }
    (*at)[std::string(rest)] = Json::parse(each.value);
  }
  return root;
}

std::string nested_json(const std::vector<KeyValue>& keys) { return nested(keys).dump(2) + "\n"; }

std::string toml_text(const std::vector<KeyValue>& keys) {
  std::string out;
  const Json root = nested(keys);
  for (const auto& [section, members] : root.items()) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    for (const auto& [key, value] : members.items())
      out += fmt::format("{} = {}\n", key, value.dump());
  }
  return out;
}

std::string yaml_text(const std::vector<KeyValue>& keys) {
  std::string out;
  const Json root = nested(keys);
  for (const auto& [key, value] : root.items()) {
    out += key + ":";
    if (!value.is_object()) {
      out += fmt::format(" {}\n", value.dump());
      continue;
    }
    out += '\n';
    for (const auto& [inner, of] : value.items())
      out += fmt::format("  {}: {}\n", inner, of.dump());
  }
  return out;
}

std::string command_options(const std::vector<KeyValue>& keys) {
  std::string out;
  for (const KeyValue& each : keys) {
    if (each.value == "false") continue;
    out += each.key;
    const nlohmann::json value = nlohmann::json::parse(each.value);
    for (const auto& item : value.is_array() ? value : nlohmann::json::array({value}))
      if (!item.is_boolean())
        out += ' ' + (item.is_string() ? item.get<std::string>() : item.dump());
    out += '\n';
  }
  return out;
}

}  // namespace zplan
