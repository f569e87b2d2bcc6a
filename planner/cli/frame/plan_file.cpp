#include "planner/cli/frame/plan_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/hardware_document.h"
#include "models/model_template.h"
#include "planner/cli/frame/output.h"
#include "planner/core/bundle.h"
#include "planner/core/error.h"
#include "planner/core/json_edit.h"
#include "planner/core/text.h"
#include "planner/foreign/hugging_face/hub_cache.h"
#include "planner/foreign/model_file.h"
#include "planner/search/device_kernels.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

// What a bundle holds fails with its name already.
template <typename Work>
auto naming(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(path + ":")) throw;
    throw Error(error.code(), fmt::format("{}: {}", path, error.what()));
  }
}

// `folder`: that relative paths are seen from; a name of the hub is none.
bool is_relative(const std::string& name, const fs::path& folder) {
  std::error_code ignored;
  if (has_hub_form(name) && !fs::exists(folder / name, ignored)) return false;
  return looks_like_path(name) && fs::path(name).is_relative();
}

// Where the folders between are links, only the whole path is sure to lead there.
std::string seen_from(const fs::path& folder, const std::string& name) {
  const fs::path whole = fs::absolute(name).lexically_normal();
  const fs::path relative = whole.lexically_relative(fs::absolute(folder).lexically_normal());
  std::error_code ignored;
  if (relative.empty() ||
      !fs::equivalent((folder / relative).parent_path(), whole.parent_path(), ignored))
    return whole.string();
  const std::string text = relative.string();
  return looks_like_path(text) ? text : "./" + text;
}

// A path, as readers tell it from a name.
std::string as_path(const std::string& path) { return looks_like_path(path) ? path : "./" + path; }

void tell_changed(const std::string& path, std::string_view what, const PlanSeal::Part& part) {
  complain(fmt::format("{}: {} {} is not as it was when this plan was made", path, what,
                       in_quotes(part.name)));
}

// `plan`: as the file is to have it; the names lead from here.
PlanSeal seal_of(const Plan& plan, const PlanOrigin& origin, const std::string& model,
                 const std::string& hardware) {
  return {.model = {plan.model, model_hash(load_named_model(model).model)},
          .hardware = {plan.hardware, hardware_hash(hardware)},
          .decisions = decisions_hash(plan),
          .fingerprint = origin.fingerprint,
          .software = origin.software,
          .calibration = origin.calibration};
}

}  // namespace

ReadPlan read_plan(const std::string& path) {
  PlanFile file = load_plan_file(path);
  Plan& plan = file.plan;
  const bool is_as_named = file.seal && file.seal->model.name == plan.model;
  const bool has_sealed_hardware = file.seal && file.seal->hardware.name == plan.hardware;
  const fs::path folder = fs::path(path).parent_path();
  if (file.seal)
    for (std::string* name : {&file.seal->software, &file.seal->calibration})
      if (is_relative(*name, folder)) *name = (folder / *name).string();
  if (file.is_bundle) {
    plan.model = as_path(path);
    plan.hardware = with_settings(as_path(path), split_settings(plan.hardware).settings);
  }
  if (!file.is_bundle)
    for (std::string* name : {&plan.model, &plan.hardware})
      if (is_relative(*name, folder)) *name = (folder / *name).string();
  naming(path, [&] {
    const NamedModel named = load_named_model(plan.model);
    if (const auto why = illegal(plan, shape_of(named.model))) throw_bad_input(*why);
    tell_left_out(named.model.name, named.left_out);
    if (is_as_named && model_hash(named.model) != file.seal->model.hash)
      tell_changed(path, "model", file.seal->model);
  });
  return {path, std::move(plan), std::move(file.seal), has_sealed_hardware};
}

void tell_left_out(const std::string& model, const std::vector<std::string>& sentences) {
  for (const std::string& one : sentences) complain(fmt::format("{}: {}", model, one));
}

std::string plan_text(Plan plan, PlanOrigin origin, const std::string& path) {
  const std::string model = plan.model, hardware = plan.hardware;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty())
    for (std::string* name : {&plan.model, &plan.hardware, &origin.software, &origin.calibration})
      if (is_relative(*name, {})) *name = seen_from(folder, *name);
  return to_json(plan, seal_of(plan, origin, model, hardware));
}

std::string bundle_text(Plan plan, const PlanOrigin& origin) {
  const std::string model = plan.model, name = plan.hardware;
  const ModelConfig shape = load_named_model(model).model;
  const HardwareDocument hardware = hardware_document(name);
  plan.model = shape.name;
  plan.hardware = with_settings(hardware.name, hardware.settings);
  const std::string text = fmt::format(
      R"({{"schema": "{}", "plan": {}, "model": {}, "hardware": {}}})", kBundleTag,
      to_json(plan, seal_of(plan, origin, model, name)), model_template(shape), hardware.text);
  return json_text(parse_json(text, "bundle")) + "\n";
}

Cluster cluster_of(const ReadPlan& read, const std::string& name) {
  const Plan& plan = read.plan;
  const VariedName asked = split_settings(name);
  const bool is_as_planned = asked.plain.empty();
  const Cluster cluster = !is_as_planned ? load_cluster(name) : naming(read.path, [&] {
    return load_cluster(with_settings(plan.hardware, asked.settings));
  });
  if (is_as_planned && read.has_sealed_hardware &&
      hardware_hash(plan.hardware) != read.seal->hardware.hash)
    tell_changed(read.path, "hardware", read.seal->hardware);
  if (const auto lack = lacks_kernels(plan.kernel_set, cluster.node))
    throw_bad_input(fmt::format("{}: /kernel_set: {}", read.path, *lack));
  return cluster;
}

}  // namespace zplan
