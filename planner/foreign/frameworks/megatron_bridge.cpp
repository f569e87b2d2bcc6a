#include "planner/foreign/frameworks/megatron_bridge.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/bridge_fields.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/key_place.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/megatron_model.h"
#include "planner/foreign/frameworks/megatron_parts.h"

namespace zplan {
namespace {

constexpr std::string_view kClass = "_target_";  // of a section, as a saved configuration says

struct Tables {
  KeyTable fields{"megatron_bridge.json"};
  KeyTable options{"megatron.json"};
};

// Megatron-LM's options as the fields say them.
ConfigReader options_of_fields(const JsonNode& root, const Tables& tables) {
  return {root, tables.options,
          [&](std::string_view option) { return bridge_option(root, tables.fields, option); }};
}

// Keys that a section does not have: of one whose class is said others may be right. Mixed
// precision may be a recipe's name, which has none.
std::vector<Finding> unknown_fields(const JsonNode& root, const KeyTable& table) {
  const auto precision = find_key(root, "mixed_precision");
  const bool is_named = precision && precision->is_string();
  ConfigReader reader(is_named ? with_key(root, "mixed_precision", "") : root, table);
  reader.check_keys();
  std::vector<Finding> findings = std::move(reader).findings();
  std::erase_if(findings, [&](const Finding& finding) {
    const std::string section = finding.key.substr(0, finding.key.find('.'));
    return finding.key != section && find_key(root, section + "." + std::string(kClass));
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

void say_what_is_assumed(const JsonNode& root, Setup& setup) {
  if (!find_key(root, kClass))
    setup.findings.push_back(
        {.trouble = Trouble::kAssumed,
         .place = {},
         .key = {},
         .message =
             "fields that are left out are as their classes have them; a recipe may set them "
             "otherwise: run_config.yaml, which training saves, has all"});
  const auto recipe = find_key(root, "mixed_precision");
  if (recipe && recipe->is_string() && recipe->string().find("fp4") != std::string::npos)
    setup.findings.push_back({.trouble = Trouble::kNotModelled,
                              .place = recipe->location(),
                              .key = "mixed_precision",
                              .message = "products of 4 bits are counted as of 16"});
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
  return megatron_model(root, options_of_fields(root, tables));
}

Setup read_megatron_bridge(const JsonNode& root, const Surroundings& around) {
  const Tables tables;
  ConfigReader config = options_of_fields(root, tables);
  Setup out{.version = tables.fields.version(), .stack = "megatron_core"};
  out.plan.model = around.model.name;
  const KeysToPlan to{config, around, out.plan};
  read_megatron_ranks(to, root);
  read_megatron_plan(to);
  out.findings = std::move(config).findings();
  for (Finding& finding : out.findings) name_fields(root, finding);
  for (Finding& finding : unknown_fields(root, tables.fields))
    out.findings.push_back(std::move(finding));
  say_what_is_assumed(root, out);
  return out;
}

std::vector<KeyValue> megatron_bridge_keys(const Plan& plan, const ModelConfig& model) {
  return bridge_fields(megatron_keys(plan, model));
}

}  // namespace zplan
