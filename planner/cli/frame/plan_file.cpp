#include "planner/cli/frame/plan_file.h"

#include <fmt/format.h>

#include "hwprofiles/cluster_name.h"
#include "models/model_config.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

template <typename Work>
auto naming(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace

Plan read_plan(const std::string& path) {
  const Plan plan = load_plan(path);
  naming(path, [&] {
    if (const auto why = illegal(plan, shape_of(load_model(plan.model)))) throw_bad_input(*why);
  });
  return plan;
}

Cluster cluster_of(const std::string& path, const Plan& plan, const std::string& name) {
  const VariedName asked = split_settings(name);
  if (!asked.plain.empty()) return load_cluster(name);
  return naming(path, [&] { return load_cluster(with_settings(plan.hardware, asked.settings)); });
}

}  // namespace zplan
