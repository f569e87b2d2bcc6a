#include "planner/foreign/frameworks/export_files.h"

#include <fmt/format.h>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/embedded_scripts.h"
#include "planner/foreign/frameworks/launch.h"

namespace zplan {
namespace {

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

}  // namespace

std::vector<OutputFile> export_files(const Framework& framework, const Plan& plan,
                                     const ModelConfig& model, const Cluster& cluster) {
  std::vector<OutputFile> files{
      {std::string(framework.file), framework.render(framework.keys(plan, model))}};
  std::string program;
  if (framework.script.empty()) {
    program = framework.program;
  } else {
    program = fmt::format("train.py --sequence {}{}", plan.batch.sequence,
                          plan.all_full() ? " --recompute" : "");
    files.push_back({"train.py", script_text(framework.script), true});
  }
  for (OutputFile& file : launch_files(plan, cluster, {program, environment_of(plan)}))
    files.push_back(std::move(file));
  return files;
}

}  // namespace zplan
