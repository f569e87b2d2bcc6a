#include <algorithm>
#include <utility>

#include "planner/foreign/frameworks/bridge_fields.h"
#include "planner/foreign/frameworks/bridge_rows.h"
#include "planner/foreign/frameworks/config_reader.h"

namespace zplan {
namespace {

constexpr std::string_view kPrecision = "mixed_precision";

// What recipes of pre-training begin with, as JSON [MegatronBridge recipes/common.py].
constexpr std::pair<std::string_view, std::string_view> kRecipe[] = {
    {"mixed_precision.bf16", "true"},
    {"mixed_precision.grad_reduce_in_fp32", "true"},
    {"ddp.use_distributed_optimizer", "true"},
    {"ddp.overlap_grad_reduce", "true"},
    {"ddp.overlap_param_gather", "true"},
    {"ddp.data_parallel_sharding_strategy", "\"optim_grads_params\""},
};

JsonNode switched(bool on) { return parse_json(on ? "true" : "false", "field"); }

// [Megatron-Bridge training/mixed_precision.py]
JsonNode recipe_of(std::string_view precision) {
  const auto says = [&](std::string_view word) { return precision.find(word) != precision.npos; };
  const char* const recipe = says("mxfp8")                          ? "\"mxfp8\""
                             : says("delayed")                      ? "\"delayed\""
                             : says("subchannel") || says("nanov2") ? "\"blockwise\""
                                                                    : "\"tensorwise\"";
  return parse_json(recipe, "field");
}

// A recipe of mixed precision is named, or its fields are given.
std::optional<JsonNode> named_precision(const JsonNode& root, std::string_view option) {
  const auto recipe = find_key(root, kPrecision);
  if (!recipe || !recipe->is_string()) return std::nullopt;
  const std::string name = recipe->string();
  const auto says = [&](std::string_view word) { return name.find(word) != std::string::npos; };
  if (option == "--bf16") return switched(says("bf16"));
  if (option == "--fp16") return switched(says("fp16"));
  if (option == "--grad-reduce-in-bf16") return switched(!says("bf16"));
  if (option == "--fp8-format" && says("fp8")) return parse_json("\"hybrid\"", "field");
  if (option == "--fp4-format" && says("fp4")) return parse_json("\"e2m1\"", "field");
  if (option == "--fp8-recipe" && says("fp8")) return recipe_of(name);
  if (option == "--fp8-param-gather" && says("fp8")) return switched(!says("subchannel"));
  return std::nullopt;
}

// "silu", or a saved configuration's {"_target_": "torch.nn.functional.silu"}.
bool is_squared_relu(const JsonNode& root) {
  auto function = find_key(root, "model.activation_func");
  if (function && function->is_object()) function = find_key(*function, "_target_");
  return function && function->is_string() && function->string().ends_with("squared_relu");
}

std::optional<JsonNode> written_field(const JsonNode& root, std::string_view field) {
  if (field.empty()) return std::nullopt;
  auto node = find_key(root, field);
  return node && !node->is_null() ? node : std::nullopt;
}

std::string_view section_of(const FieldRow& row) {
  return row.field.substr(0, row.field.find('.'));
}

bool is_on(const JsonNode& node) { return node.is_boolean() && node.boolean(); }

// Of its fields the first that is given; of a switch one that is on. Mixed precision, where it is
// there, is set up over what other sections say.
std::optional<JsonNode> given(const JsonNode& root, const FieldRow& row) {
  auto first = written_field(root, row.field);
  if (section_of(row) == kPrecision && written_field(root, kPrecision)) return first;
  auto second = written_field(root, row.also);
  const bool counts = second && (!first || (!row.is_opposite && is_on(*second)));
  return counts ? second : first;
}

// Over a recipe, whose named precision a section of the file's takes the place of.
std::optional<JsonNode> of_recipe(const JsonNode& root, const FieldRow& row) {
  const auto* const value =
      std::ranges::find(kRecipe, row.field, &std::pair<std::string_view, std::string_view>::first);
  const bool is_replaced = section_of(row) == kPrecision && find_key(root, section_of(row));
  if (value == std::end(kRecipe) || is_replaced) return std::nullopt;
  return parse_json(std::string(value->second), "recipe");
}

// In a whole configuration a section that is left out has no say.
JsonNode left_out(const JsonNode& root, const KeyTable& table, const FieldRow& row) {
  const bool has_section = row.also.empty() || find_key(root, section_of(row));
  if (is_whole_bridge_configuration(root)) return table.usual(has_section ? row.field : row.also);
  const auto recipe = of_recipe(root, row);
  return recipe ? *recipe : table.usual(row.field);
}

bool is_said(const JsonNode& root, std::string_view field) {
  const auto node = written_field(root, field);
  return node && is_on(*node);
}

// The section of overlap sets its switches and buckets of 128 Mi elements over those of ddp, but
// for what it says itself; those of experts it leaves as the model has them
// [MegatronBridge training/comm_overlap.py].
std::optional<JsonNode> of_overlap(const JsonNode& root, std::string_view option) {
  struct Row {
    std::string_view option, field;
    const char* usual = nullptr;  // none: it sets the field where it says so
  };
  constexpr Row kOverlap[] = {
      {"--overlap-grad-reduce", "overlap_grad_reduce", "true"},
      {"--overlap-param-gather", "overlap_param_gather", "true"},
      {"--ddp-bucket-size", "bucket_size", "134217728"},
      {"--overlap-moe-expert-parallel-comm", "overlap_moe_expert_parallel_comm"},
      {"--delay-wgrad-compute", "delay_wgrad_compute"}};
  const auto* const row = std::ranges::find(kOverlap, option, &Row::option);
  if (row == std::end(kOverlap) || !written_field(root, "comm_overlap")) return std::nullopt;
  if (auto own = written_field(root, "comm_overlap." + std::string(row->field))) return own;
  if (row->usual == nullptr) return std::nullopt;
  return parse_json(row->usual, "field");
}

}  // namespace

bool is_whole_bridge_configuration(const JsonNode& root) {
  return find_key(root, "_target_").has_value();
}

std::optional<JsonNode> bridge_option(const JsonNode& root, const KeyTable& table,
                                      std::string_view option) {
  if (auto named = named_precision(root, option)) return named;
  if (auto overlap = of_overlap(root, option)) return overlap;
  if (option == "--group-query-attention")
    return switched(written_field(root, "model.num_query_groups").has_value());
  if (option == "--cpu-offloading-num-layers" && !is_said(root, "model.cpu_offloading"))
    return std::nullopt;
  if (option == "--squared-relu") return switched(is_squared_relu(root));
  const FieldRow* const row = bridge_row(option);
  if (row == nullptr) return std::nullopt;
  const auto written = given(root, *row);
  const JsonNode value = written ? *written : left_out(root, table, *row);
  if (value.is_null()) return std::nullopt;
  if (option == "--fp8-format") value.one_of({"hybrid", "e4m3"});
  if (row->is_opposite) return switched(!value.boolean());
  return value;
}

}  // namespace zplan
