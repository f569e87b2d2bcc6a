// Families of plans: what rejections and reports are grouped by.
#include <fmt/format.h>

#include "planner/search/search.h"

namespace zplan {

Family family_of(const Plan& plan) {
  Family family;
  family.zero_stage = plan.zero_stage;
  family.tensor = plan.parallel.tp > 1;
  family.pipeline = plan.parallel.pp > 1;
  family.recipe = recipe_index(plan);
  for (const Tier tier : plan.placement.tiers()) {
    family.cpu = family.cpu || tier == Tier::kCpu;
    family.nvme = family.nvme || tier == Tier::kNvme;
  }
  family.cpu = family.cpu || plan.offload.any();
  for (const RecomputeRun& run : plan.recompute) {
    family.cpu = family.cpu || !run.on_cpu.empty();
    family.nvme = family.nvme || !run.on_nvme.empty();
  }
  return family;
}

int tiers_used(const Family& family) { return 1 + (family.cpu ? 1 : 0) + (family.nvme ? 1 : 0); }

std::string name(const Family& family) {
  return fmt::format("ZeRO-{} gpu{}{}{}{}{}", family.zero_stage, family.cpu ? "+cpu" : "",
                     family.nvme ? "+nvme" : "", family.tensor ? " tp" : "",
                     family.pipeline ? " pp" : "",
                     family.recipe == 0 ? "" : fmt::format(" {}", recipe_name(family.recipe)));
}

}  // namespace zplan
