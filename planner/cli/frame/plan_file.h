// A Plan as a subcommand reads it from a file: what is wrong with it is said with the name of the
// file, also where only its model, its kernel set or its cluster show it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/plan/plan_file.h"

namespace zplan {

struct ReadPlan {
  std::string path;
  Plan plan;
  std::optional<PlanSeal> seal;
  bool has_sealed_hardware = false;  // the file names that of the seal
};

// A plan that has a Job. Paths in the file are relative to its folder, in the Plan to the current
// one; of a bundle both names are its path. On stderr: what is left out of a foreign model, and
// whether the model has changed since the plan was made (planner/plan/plan_file.h).
ReadPlan read_plan(const std::string& path);
// On stderr, of a foreign model: a line for each sentence.
void tell_left_out(const std::string& model, const std::vector<std::string>& sentences);
// What a plan file keeps of how the plan came about.
struct PlanOrigin {
  std::string fingerprint;            // of its placed Job
  std::string software, calibration;  // as PlanSeal
};
// The text of a file at this path, in which relative paths, those of software and calibration run,
// too, are relative to its folder,
// with what the plan was made with.
std::string plan_text(Plan plan, PlanOrigin origin, const std::string& path);
// The same with model and hardware, a "zplan.bundle/1".
std::string bundle_text(Plan plan, const PlanOrigin& origin);
// The cluster of that name or, where it is empty or settings alone, "{nvme=x2}", the one that the
// plan names, so changed (hwprofiles/cluster_name.h). Says on stderr when what the
// plan names has changed since it was made. Throws Error when its device lacks the plan's kernel
// set.
Cluster cluster_of(const ReadPlan& read, const std::string& name = "");

}  // namespace zplan
