#include "planner/validate/run_form.h"

#include <optional>

#include "planner/core/json_edit.h"
#include "planner/validate/pipeline_layout.h"
#include "planner/validate/run_key_rows.h"
#include "planner/validate/run_tree.h"

namespace zplan {
namespace {

void read_printed(const JsonNode& node) {
  if (!node.is_string() && !node.is_number()) node.fail_expected("a number or a text");
}

// Returns the value of a fact as JSON. It has the kind of its row, too, and the words of it.
std::string read_fact(const JsonNode& node, const RunKey& key) {
  std::string text;
  bool flag = false;
  std::int64_t count = 0;
  double number = 0;
  std::vector<std::string> texts;
  std::vector<std::int32_t> counts;
  switch (key.kind) {
    case RunKeyKind::kText:
      rows::read_value(node, key, text);
      return rows::write_value(text);
    case RunKeyKind::kFlag:
      rows::read_value(node, key, flag);
      break;
    case RunKeyKind::kCount:
      rows::read_value(node, key, count);
      break;
    case RunKeyKind::kNumber:
      rows::read_value(node, key, number);
      break;
    case RunKeyKind::kTexts:
      rows::read_value(node, key, texts);
      return rows::write_value(texts);
    case RunKeyKind::kCounts:
      rows::read_value(node, key, counts);
      break;
    case RunKeyKind::kPrinted:
      read_printed(node);
  }
  return fact_text(node);
}

void read_leaf(const JsonNode& node, const RunKey& key, RunRecord& run) {
  if (node.is_null() && !key.required) return;
  if (key.read != nullptr) return key.read(node, key, run);
  run.facts.emplace(key.pointer, read_fact(node, key));
}

void read_object(const JsonNode& node, const std::string& pointer, RunRecord& run) {
  JsonObject object = node.object();
  if (pointer.empty()) object.schema(kRunTag);
  for (const RunMember& member : run_members(pointer)) {
    const bool is_required =
        member.key != nullptr ? member.key->required : has_below(member.pointer, &RunKey::required);
    const auto value = is_required ? std::optional(object.member(member.name))
                                   : object.optional_member(member.name);
    if (!value) continue;
    if (member.key != nullptr) {
      read_leaf(*value, *member.key, run);
    } else if (is_required || !value->is_null()) {
      read_object(*value, member.pointer, run);
    }
  }
  object.finish();
}

// Returns nothing where the record says nothing below the pointer.
std::string write_object(const RunRecord& run, const std::string& pointer) {
  std::string out;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) out += (out.empty() ? "" : ", ") + json_string(name) + ": " + value;
  };
  if (pointer.empty()) add("schema", json_string(kRunTag));
  for (const RunMember& member : run_members(pointer))
    add(member.name,
        member.key != nullptr ? said(run, member.pointer) : write_object(run, member.pointer));
  return out.empty() ? "" : "{" + out + "}";
}

// A layout says the layers of the stages where nothing else does.
void take_layout(RunRecord& run) {
  const auto layout = run.facts.find("/pipeline/layout");
  if (layout == run.facts.end() || run.parallel.stage_layers || run.parallel.pp == 1) return;
  const std::string_view quoted = layout->second;
  run.parallel.stage_layers = layers_of_layout(quoted.substr(1, quoted.size() - 2));
}

}  // namespace

std::string fact_text(const JsonNode& node) {
  const std::string text = json_text(node);
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') {
      line += text[i];
      continue;
    }
    while (i + 1 < text.size() && text[i + 1] == ' ') ++i;
  }
  return line;
}

RunRecord read_run(const JsonNode& root) {
  RunRecord run;
  run.second_form = true;
  read_object(root, "", run);
  take_layout(run);
  check_run(root, run);
  // [derived] One figure in one unit: GB of 1e9 bytes, GiB of 2^30.
  constexpr double kGb = 1e9, kGiB = 0x1p30;
  if (const auto gb = run.facts.find("/measured/memory_gb"); gb != run.facts.end())
    run.measured.memory_gib = std::stod(gb->second) * kGb / kGiB;
  if (const auto& kernels = run.kernels.attention)
    run.flash_attention = *kernels != "unfused" && *kernels != "eager" && *kernels != "math";
  return run;
}

std::string said(const RunRecord& run, std::string_view pointer) {
  const auto fact = run.facts.find(pointer);
  if (fact != run.facts.end()) return fact->second;
  for (const RunKey& key : run_keys())
    if (key.pointer == pointer && key.write != nullptr) return key.write(run);
  return "";
}

std::string write_run(const RunRecord& run) { return write_object(run, ""); }

}  // namespace zplan
