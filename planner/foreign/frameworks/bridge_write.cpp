#include <algorithm>
#include <utility>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/bridge_fields.h"
#include "planner/foreign/frameworks/bridge_rows.h"
#include "planner/foreign/frameworks/key_list.h"
#include "planner/foreign/frameworks/layer_pattern.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

// Switches that are said to be off, too, because of recipes.
constexpr std::string_view kAlwaysSaid[] = {"--bf16", "--use-distributed-optimizer",
                                            "--overlap-grad-reduce", "--overlap-param-gather"};

std::vector<std::string> fields_of(const FieldRow& row) {
  std::vector<std::string> out{std::string(row.field)};
  if (!row.also.empty()) out.emplace_back(row.also);
  return out;
}

// "(4095,0)" as a list.
std::string window_list(std::string value) {
  value = parse_json(value, "option").string();
  value.front() = '[';
  value.back() = ']';
  return value;
}

// ([0]*3+[1]*58) as a list.
std::string layer_list(const std::string& value) {
  const JsonNode node = parse_json(value, "option");
  if (!node.is_string()) return value;
  const auto layers = layer_pattern(node.string(), kMaxLayers);
  ZPLAN_ASSERT(layers);
  std::string out;
  for (const bool has_experts : *layers)
    out += (out.empty() ? "" : ", ") + std::string(has_experts ? "1" : "0");
  return "[" + out + "]";
}

class FieldWriting {
 public:
  explicit FieldWriting(const std::vector<KeyValue>& options) : options_(options) {}

  std::vector<KeyValue> write() {
    for (const KeyValue& option : options_)
      if (const FieldRow* const row = bridge_row(option.key)) add(*row, option);
    for (const std::string_view option : kAlwaysSaid)
      if (!has(option)) add(*bridge_row(option), {std::string(option), "false"});
    if (has("--swiglu")) keys_.add("model.activation_func", "silu");
    if (has("--cuda-graph-impl")) keys_.add("model.use_te_rng_tracker", true);
    add_types();
    return std::move(keys_).keys();
  }

 private:
  bool has(std::string_view option) const {
    return std::ranges::find(options_, option, &KeyValue::key) != options_.end();
  }

  void add(const FieldRow& row, const KeyValue& option) {
    std::string value = row.is_opposite ? "false" : option.value;
    if (option.key == "--moe-layer-freq") value = layer_list(value);
    if (option.key == "--window-size") value = window_list(value);
    for (const std::string& field : fields_of(row)) keys_.put(field, value);
  }

  // What Megatron-LM concludes from its switches.
  void add_types() {
    const bool bf16 = has("--bf16"), fp16 = has("--fp16");
    const std::string_view type = bf16   ? "torch.bfloat16"
                                  : fp16 ? "torch.float16"
                                         : "torch.float32";
    keys_.add("mixed_precision.params_dtype", type);
    keys_.add("mixed_precision.pipeline_dtype", type);
    if (!bf16 && !fp16) keys_.add("mixed_precision.fp32", true);
    if (has("--grad-reduce-in-bf16")) return;
    keys_.add("mixed_precision.grad_reduce_in_fp32", true);
    keys_.add("ddp.grad_reduce_in_fp32", true);
  }

  const std::vector<KeyValue>& options_;
  KeyList keys_;
};

}  // namespace

std::vector<KeyValue> bridge_fields(const std::vector<KeyValue>& options) {
  return FieldWriting(options).write();
}

}  // namespace zplan
