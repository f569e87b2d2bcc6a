#include "tests/gpu/rates.h"

#include <algorithm>
#include <vector>

#include "exec/measure/timing.h"

namespace zplan::gpu {

double launch_seconds(CaseRun& run) {
  constexpr exec::Effort kEffort{.seconds = 0.05, .batches = 5};  // ten launches a batch or more
  return exec::seconds_each(
      run.backend(), [&run] { run.launch(); }, kEffort);
}

Rates measure_rates(const Target& target, const KernelSet& set, std::mt19937_64& random) {
  const auto flop = [&](const Case& c) {
    return static_cast<double>(demand_of(c, set).flops.value);
  };
  const auto seconds = [&](const Case& c) {
    CaseRun run(*target.device, set, c, draw_inputs(c, set, random));
    return launch_seconds(run);
  };
  Rates rates;
  for (const Case& c : cases_of(KernelId::kGeluForward, true)) {  // two operands of one size
    CaseRun run(*target.device, set, c, draw_inputs(c, set, random));
    rates.copy = static_cast<double>(demand_of(c, set).bytes.value) /
                 exec::seconds_each(run.backend(), [&run] { run.queue_copy(); }, {});
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
