#include "planner/cli/frame/plan_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "hwprofiles/cluster_name.h"
#include "planner/cli/frame/output.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/foreign/model_file.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

template <typename Work>
auto naming(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path, error.what()));
  }
}

bool is_relative(const std::string& name) {
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

}  // namespace

Plan read_plan(const std::string& path) {
  Plan plan = load_plan(path);
  const fs::path folder = fs::path(path).parent_path();
  for (std::string* name : {&plan.model, &plan.hardware})
    if (is_relative(*name)) *name = (folder / *name).string();
  naming(path, [&] {
    const NamedModel named = load_named_model(plan.model);
    if (const auto why = illegal(plan, shape_of(named.model))) throw_bad_input(*why);
    tell_left_out(named.model.name, named.left_out);
  });
  return plan;
}

void tell_left_out(const std::string& model, const std::vector<std::string>& sentences) {
  for (const std::string& one : sentences) complain(fmt::format("{}: {}", model, one));
}

std::string plan_text(Plan plan, const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty())
    for (std::string* name : {&plan.model, &plan.hardware})
      if (is_relative(*name)) *name = seen_from(folder, *name);
  return to_json(plan);
}

Cluster cluster_of(const std::string& path, const Plan& plan, const std::string& name) {
  const VariedName asked = split_settings(name);
  if (!asked.plain.empty()) return load_cluster(name);
  return naming(path, [&] { return load_cluster(with_settings(plan.hardware, asked.settings)); });
}

}  // namespace zplan
