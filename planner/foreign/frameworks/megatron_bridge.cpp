#include "planner/foreign/frameworks/megatron_bridge.h"
#include "planner/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/foreign/frameworks/bridge_fields.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/key_place.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/megatron_model.h"
#include "planner/foreign/frameworks/megatron_parts.h"
#include "planner/foreign/frameworks/trained_keys.h"

namespace zplan {
namespace {

// Recipes of mixed precision [MegatronBridge training/mixed_precision.py].
constexpr std::string_view kPrecisions[] = {"bf16_mixed",
                                            "fp16_mixed",
                                            "bf16_with_fp8_delayed_scaling_mixed",
                                            "fp16_with_fp8_delayed_scaling_mixed",
                                            "bf16_with_mxfp8_mixed",
                                            "fp16_with_mxfp8_mixed",
                                            "bf16_with_fp8_current_scaling_mixed",
                                            "nemotron_h_bf16_with_fp8_current_scaling_mixed",
                                            "nanov2_bf16_with_fp8_current_scaling_mixed",
                                            "fp16_with_fp8_current_scaling_mixed",
                                            "bf16_with_fp8_subchannel_scaling_mixed",
                                            "fp16_with_fp8_subchannel_scaling_mixed",
                                            "bf16_with_nvfp4_mixed",
                                            "nemotron_3_super_bf16_with_nvfp4_mixed",
                                            "nemotron_3_ultra_bf16_with_nvfp4_mixed"};

// What changes the step and is not in a Plan.
constexpr std::pair<std::string_view, std::string_view> kNotModelled[] = {
    {"train.rampup_batch_size", "the batch is counted as it is at the end"}};

struct Tables {
  const KeyTable& fields = KeyTable::of("megatron_bridge.json");
  const KeyTable& options = KeyTable::of("megatron.json");
};

// Megatron-LM's options as the fields say them.
ConfigReader options_of_fields(const JsonNode& root, const Tables& tables) {
  return {root, tables.options,
          [&](std::string_view option) { return bridge_option(root, tables.fields, option); }};
}

// Keys that a section does not have; of one whose class is said, which may have others, those that
// are nearly a key. Mixed precision may be a recipe's name, which has none.
std::vector<Finding> unknown_fields(const JsonNode& root, const KeyTable& table) {
  const auto precision = find_key(root, "mixed_precision");
  const bool is_named = precision && precision->is_string();
  ConfigReader reader(is_named ? with_key(root, "mixed_precision", "") : root, table);
  const bool is_whole = is_whole_bridge_configuration(root);
  reader.check_keys(is_whole ? "the classes" : "");
  std::vector<Finding> findings = std::move(reader).findings();
  if (is_whole)
    std::erase_if(findings, [](const Finding& each) {
      const bool is_private = each.key[each.key.find('.') + 1] == '_';
      return each.trouble == Trouble::kAssumed || is_private;
    });
  return findings;
}

void name_fields(const JsonNode& root, Finding& finding) {
  finding.message = in_bridge_fields(finding.message);
  const std::string field = bridge_field(finding.key);
  if (field.empty()) return;
  const auto node = find_key(root, field);
  finding.key = field;
  finding.place = node ? node->location() : "";
}

void check_precision(const JsonNode& root, Setup& setup) {
  const auto recipe = find_key(root, "mixed_precision");
  if (!recipe || !recipe->is_string()) return;
  const auto add = [&](Trouble trouble, std::string message) {
    setup.findings.push_back({trouble, recipe->location(), "mixed_precision", std::move(message)});
  };
  std::string name = recipe->string();
  std::ranges::replace(name, '-', '_');
  if (std::ranges::find(kPrecisions, name) == std::end(kPrecisions))
    add(Trouble::kError,
        fmt::format("no recipe of mixed precision{}",
                    did_you_mean(name, {std::begin(kPrecisions), std::end(kPrecisions)})));
}

// The section of what is trained has factors of LoRA. A whole configuration without them trains
// all; where fields are left out a recipe may have them, and what is asked for counts.
void read_factors(const JsonNode& root, const Surroundings& around, Setup& setup) {
  const TrainedKeys keys{
      [&](std::string_view key) {
        return find_key(root, key == "peft" ? std::string(key) : "peft." + std::string(key));
      },
      [&](Trouble trouble, std::string_view key, std::string message) {
        const auto node = find_key(root, "peft." + std::string(key));
        setup.findings.push_back({trouble, node ? node->location() : "", "peft." + std::string(key),
                                  std::move(message)});
      }};
  const auto section = find_key(root, "peft");
  if (section ? section->is_null() : is_whole_bridge_configuration(root)) return;
  const auto kind = find_key(root, "peft._target_");
  const bool is_other = kind && kind->is_string() && !kind->string().ends_with(".LoRA");
  if (is_other)
    setup.findings.push_back({Trouble::kNotModelled, section->location(), "peft",
                              fmt::format("{}: counted as LoRA", in_quotes(kind->string()))});
  if (const auto train = read_trained_keys(keys, around.model)) setup.plan.train = *train;
  take_trained(around.asked, setup.plan);
}

void say_what_is_assumed(const JsonNode& root, Setup& setup) {
  for (const auto& [field, message] : kNotModelled)
    if (const auto node = find_key(root, field); node && !node->is_null())
      setup.findings.push_back(
          {Trouble::kNotModelled, node->location(), std::string(field), std::string(message)});
  if (!is_whole_bridge_configuration(root))
    setup.findings.push_back(
        {.trouble = Trouble::kAssumed,
         .place = {},
         .key = {},
         .message =
             "fields that are left out are as recipes of pre-training begin; yours may set them "
             "otherwise: run_config.yaml, which training saves, has all"});
}

// What fails of an option fails of its field.
template <typename Read>
auto with_fields_named(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), in_bridge_fields(error.what()));
  }
}

}  // namespace

bool is_megatron_bridge(const JsonNode& root) {
  constexpr std::string_view kSigns[] = {"model.tensor_model_parallel_size",
                                         "model.pipeline_model_parallel_size", "model.num_layers",
                                         "train.micro_batch_size", "train.global_batch_size"};
  return std::ranges::any_of(
      kSigns, [&](std::string_view sign) { return find_key(root, sign).has_value(); });
}

std::optional<ModelConfig> megatron_bridge_model(const JsonNode& root) {
  if (!find_key(root, "model.num_layers") || !find_key(root, "model.hidden_size"))
    return std::nullopt;
  const Tables tables;
  ModelConfig model =
      with_fields_named([&] { return megatron_model(root, options_of_fields(root, tables)); });
  model.name = "megatron-bridge-configuration";
  model.source = "fields of Megatron-Bridge";
  return model;
}

Setup read_megatron_bridge(const JsonNode& root, const Surroundings& around) {
  const Tables tables;
  ConfigReader config = options_of_fields(root, tables);
  Setup out{.version = tables.fields.version(), .stack = "megatron_bridge"};
  out.plan.model = around.model.name;
  const KeysToPlan to{config, around, out.plan};
  with_fields_named([&] {
    read_megatron_ranks(to, root);
    read_megatron_plan(to);
  });
  out.findings = std::move(config).findings();
  for (Finding& finding : out.findings) name_fields(root, finding);
  for (Finding& finding : unknown_fields(root, tables.fields))
    out.findings.push_back(std::move(finding));
  check_precision(root, out);
  read_factors(root, around, out);
  say_what_is_assumed(root, out);
  return out;
}

std::vector<KeyValue> megatron_bridge_keys(const Plan& plan, const ModelConfig& model) {
  return bridge_fields(megatron_keys(plan, model));
}

}  // namespace zplan
