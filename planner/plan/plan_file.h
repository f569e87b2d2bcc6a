// A Plan as its file holds it: beside the decisions stands what they were made with, so that
// readers notice a change. None of it is part of the Plan.
//
//   "made_with": {"model": {"name", "hash"}, "hardware": {"name", "hash"},
//                 "decisions": hash, "fingerprint": that of the placed Job,
//                 "software": the profile that it was planned for, "calibration": the runs that its
//                 rates followed}
//
// Hashes are FNV-1a of 128 bits, as 32 hexadecimal digits (planner/core/hash.h), of the content:
// models/model_template.h and hwprofiles/hardware_document.h say which. It may be left out.
#pragma once

#include <optional>
#include <string>

#include "planner/plan/plan.h"

namespace zplan {

struct PlanSeal {
  struct Part {
    std::string name, hash;  // the name as the file has it
  };
  Part model, hardware;
  std::string decisions;
  std::string fingerprint;
  // Names alone: they decide what readers predict it with, never what it does. Empty: our own
  // executor, and no run.
  std::string software, calibration;
};

// Of all that is decided, but for the names of model and hardware.
std::string decisions_hash(const Plan& plan);

std::string to_json(const Plan& plan, const PlanSeal& seal);

struct PlanFile {
  Plan plan;
  std::optional<PlanSeal> seal;
  bool is_bundle = false;  // has its model and hardware with it (planner/core/bundle.h)
};
PlanFile parse_plan_file(const std::string& text, const std::string& file_name);
PlanFile load_plan_file(const std::string& path);

}  // namespace zplan
