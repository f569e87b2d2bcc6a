// The keys of a record of "zplan.runs/2": one row each, in the order in which a record shows them.
//
// Reading and writing (run_form.h), the JSON schema, the template and the test of what each key
// does derive from the rows. A row says where the value goes:
//
//   kPlan       a member of RunRecord, from which model, cluster, rates, plan or what is compared
//               are made (record_plan.h)
//   kUnmodelled a fact that no plan expresses: any value but `plain` refuses the record, by `told`
//   kAside      a fact that changes kernels which the cost model does not tell apart: any value but
//               `plain` is flagged by `told`, and the software counts as one whose ways are a guess
//   kFlagged    a fact that the plan leaves out: any value but `plain` is flagged by `told`, which
//               says what is left out; nothing else changes
//   kChecked    a fact that the other counts of the record decide: it contradicts them or not
//   kStatement  what the source says of itself and of the figures that it prints
//
// Facts that no member of RunRecord is for stand in RunRecord::facts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/validate/runs.h"

namespace zplan {

enum class RunKeyUse : std::uint8_t { kPlan, kUnmodelled, kAside, kFlagged, kChecked, kStatement };
enum class RunKeyKind : std::uint8_t {
  kText,     // one of `words`, where there are any
  kFlag,     // true or false
  kCount,    // an integer
  kNumber,   // any number
  kTexts,    // a list of texts, each one of `words`, where there are any
  kCounts,   // a list of integers
  kPrinted,  // a number or text, as the source prints it
};

// The least of a quantity that is above zero; quotients of two such numbers stay finite.
inline constexpr double kAboveZero = 1e-9;

struct RunKey {
  std::string_view pointer{};  // RFC 6901
  RunKeyKind kind = RunKeyKind::kText;
  RunKeyUse use = RunKeyUse::kPlan;
  std::string_view meaning{};    // with its unit
  std::string_view example{};    // JSON
  std::string_view words{};      // "a|b|c"; empty: any text
  std::string_view spellings{};  // others that are read, and what as: "a|adam=adamw"
  // The bounds of counts and numbers, which belong to the range. A row says where zero is a value.
  double least = 1, most = 1e9;
  bool required = false;
  bool shown = false;        // stands in the template; else its example does, as a comment
  std::string_view plain{};  // JSON of the values that the model has anyway: "false|0"
  // A refusal or a flag names this; of kPlan it lists words that no plan expresses, as in
  // "lion=optimizer lion".
  std::string_view told{};
  // Returns true where the value, as JSON, comes to nothing beside the record's other counts: it
  // neither refuses nor flags the record. Null: it never does.
  bool (*idle)(const RunRecord& run, std::string_view value) = nullptr;
  // These are null where the value stands in RunRecord::facts. Written text is JSON; it is empty
  // where the record does not say it.
  void (*read)(const JsonNode& node, const RunKey& key, RunRecord& run) = nullptr;
  std::string (*write)(const RunRecord& run) = nullptr;
};

// All rows, section by section.
std::span<const RunKey> run_keys();

// Modules and operators of a layer that are recomputed or that leave the GPU
// (record_recompute.cpp); "layer" is all of it.
inline constexpr std::string_view kLayerModules =
    "layer|norm|layernorm|attn_norm|mlp_norm|qkv|qkv_linear|attention|core_attn|projection|"
    "attn_proj|self_attn|attn|fc1|expert_fc1|activation|act|moe_act|swiglu|mlp|ffn|moe|experts|"
    "fused_group_mlp|shared_experts|moe_router|router|embedding|mla_up_proj|mamba|layer_inputs";

// "a|b|c" in parts.
std::vector<std::string> parts_of(std::string_view words);

// Rows of sections, each from a file of its own.
std::vector<RunKey> statement_keys();
std::vector<RunKey> model_keys();
std::vector<RunKey> parallel_keys();
std::vector<RunKey> precision_keys();
std::vector<RunKey> software_keys();

}  // namespace zplan
