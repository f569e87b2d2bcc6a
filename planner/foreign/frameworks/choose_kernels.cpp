#include "planner/foreign/frameworks/choose_kernels.h"

#include <fmt/format.h>

#include "planner/program/kernels/newest_kernel_set.h"

namespace zplan {

const KernelSet& choose_kernels(DType compute, std::string_view codes, const DeviceProfile& device,
                                Plan& plan, ConfigReader& config) {
  const KernelSet& own = find_kernel_set(device.kernel_set);
  const LayerProducts products = codes.empty() ? LayerProducts::kAsStored : LayerProducts::kFp8;
  const KernelSet* set = newest_kernel_set(own.capability, compute, products, true, codes);
  if (set == nullptr) {
    config.add(Trouble::kNotModelled, "",
               fmt::format("no kernels in {}{}{} for {}; those of {} are taken", name(compute),
                           codes.empty() ? "" : " and ", codes, device.name, own.id));
    set = &own;
  }
  plan.kernel_set = set->id;
  plan.precision = default_recipe(plan.kernel_set);
  return *set;
}

void set_dropout(bool drops, Plan& plan, ConfigReader& config) {
  plan.dropout = drops && find_kernel_set(plan.kernel_set).dropout;
  if (drops && !plan.dropout)
    config.add(Trouble::kNotModelled, "/dropout",
               fmt::format("done there, and not in the times and bytes here: kernels {} have none",
                           plan.kernel_set));
}

void take_dropout(const Pins& asked, Plan& plan, ConfigReader& config) {
  set_dropout(asked.get("/dropout", false), plan, config);
}

}  // namespace zplan
