#include "tests/gpu/rates.h"

#include <algorithm>
#include <vector>

namespace zplan::gpu {

Demand demand_of_case(const Case& c, const KernelSet& set) {
  std::vector<View> views;
  for (const CaseOperand& operand : operands_of(c, set)) views.push_back(operand.view);
  return kernel_def(c.kernel).demand(views);
}

Rates measure_rates(const Target& target, const KernelSet& set, std::mt19937_64& random) {
  const auto flop = [&](const Case& c) {
    return static_cast<double>(demand_of_case(c, set).flops.value);
  };
  const auto seconds = [&](const Case& c) {
    return CaseRun(*target.device, set, c, draw_inputs(c, set, random, false))
        .seconds(kTimedLaunches);
  };
  Rates rates;
  for (const Case& c : cases_of(KernelId::kGeluForward, true)) {  // two operands of one size
    CaseRun run(*target.device, set, c, draw_inputs(c, set, random, false));
    rates.copy =
        static_cast<double>(demand_of_case(c, set).bytes.value) / run.copy_seconds(kTimedLaunches);
  }
  for (const Case& c : cases_of(KernelId::kMatmulForward, true))
    rates.product = std::max(rates.product, flop(c) / seconds(c));
  double work = 0, time = 0;
  for (const KernelId kernel : {KernelId::kAttentionForward, KernelId::kAttentionBackward})
    for (const Case& c : cases_of(kernel, true)) {
      work += flop(c);
      time += seconds(c);
    }
  rates.attention = work / time;
  return rates;
}

}  // namespace zplan::gpu
