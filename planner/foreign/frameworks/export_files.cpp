#include "planner/foreign/frameworks/export_files.h"

#include <fmt/format.h>

#include <utility>

#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/foreign/frameworks/embedded_scripts.h"
#include "planner/foreign/frameworks/launch.h"
#include "planner/foreign/frameworks/model_config_file.h"
#include "planner/foreign/frameworks/trained_keys.h"
#include "planner/foreign/hugging_face/write_config.h"

namespace zplan {
namespace {

constexpr std::string_view kModelAndData = "model_and_data.py";

std::string script_text(std::string_view name) {
  for (const EmbeddedFile& file : embedded_scripts())
    if (file.name.ends_with(name)) return std::string(file.text);
  assertion_failed("a script by this name", __FILE__, __LINE__);
}

// What torch itself is told: segments that can grow fragment less.
std::vector<std::string> environment_of(const Plan& plan) {
  std::vector<std::string> out{"PYTORCH_ALLOC_CONF=expandable_segments:True"};
  if (plan.parallel.tp > 1) out.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS=1");
  return out;
}

// What the configuration leaves to the script.
std::string script_options(const Framework& framework, const Plan& plan) {
  const Pins said = framework.said(plan);
  std::string out;
  if (said.has("/batch/sequence")) out += fmt::format(" --sequence {}", plan.batch.sequence);
  if (said.has("/batch/micro_batch"))
    out += fmt::format(" --micro-batch {} --accumulation {}", plan.batch.micro_batch,
                       plan.micro_steps());
  if (said.has("/clip") && !plan.clip) out += " --clip 0";
  if (said.has("/recompute") && plan.all_full()) out += " --recompute";
  return out;
}

}  // namespace

std::optional<std::string> other_model(const Framework& framework, const Plan& plan,
                                       const ModelConfig& model) {
  if (framework.model == nullptr) return std::nullopt;
  const JsonNode root = parse_json(nested_json(framework.keys(plan, model)), "what was written");
  std::optional<ModelConfig> read;
  std::string why;
  try {
    read = framework.model(root);
    why = read ? joined(config_differences(model, *read), ", ")
               : "it names none that has these layers";
  } catch (const Error& error) {
    why = error.what();
  }
  return why.empty() ? std::nullopt : std::optional(why);
}

ExportFiles export_files(const Framework& framework, const Plan& plan, const ModelConfig& model,
                         const Cluster& cluster) {
  ExportFiles out;
  std::vector<OutputFile>& files = out.files;
  files.push_back({std::string(framework.file), framework.render(framework.keys(plan, model))});
  Launched launched{.program = std::string(framework.program),
                    .environment = environment_of(plan),
                    .accelerate_config = {}};
  if (!framework.script.empty()) {
    launched.program = "train.py" + script_options(framework, plan);
    files.push_back({"train.py", script_text(framework.script), true});
  }
  if (!framework.script.empty() && !framework.holds_model) {
    files.push_back({std::string(kModelAndData), script_text(kModelAndData)});
    if (std::string factors = lora_json(plan); !factors.empty())
      files.push_back({"lora.json", std::move(factors)});
    ModelConfigFile config = model_config_file(plan, model);
    if (!config.text.empty()) files.push_back({"config.json", std::move(config.text)});
    out.findings = std::move(config.findings);
  }
  if (const auto other = other_model(framework, plan, model))
    out.findings.push_back({Trouble::kError, "", "model",
                            fmt::format("not the plan's in this configuration: {}", *other)});
  if (framework.starts_itself) launched.accelerate_config = framework.file;
  for (OutputFile& file : launch_files(plan, cluster, launched)) files.push_back(std::move(file));
  return out;
}

}  // namespace zplan
