#include "planner/program/kernels/newest_kernel_set.h"

namespace zplan {

const KernelSet* newest_kernel_set(int capability, DType compute, LayerProducts products,
                                   bool fused_attention, std::string_view codes) {
  const KernelSet* best = nullptr;
  for (const KernelSet& set : kernel_sets()) {
    const bool suits = set.capability > 0 && set.capability <= capability &&
                       set.compute == compute && set.layer_products == products &&
                       set.fused_attention == fused_attention &&
                       (products != LayerProducts::kFp8 || set.codes.name == codes);
    if (suits && (best == nullptr || set.capability > best->capability)) best = &set;
  }
  return best;
}

}  // namespace zplan
