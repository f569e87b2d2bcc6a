#include "planner/cost/kernel_time.h"

#include <algorithm>
#include <array>
#include <limits>

#include "planner/core/error.h"

namespace zplan {

std::string_view peak_name(DType dtype) {
  constexpr std::array<std::string_view, kDTypeCount> names{"fp64", "fp32", "fp16", "bf16",
                                                            "int32"};
  return names[static_cast<std::size_t>(dtype)];
}

Seconds stream_time(Bytes bytes, const DeviceProfile& device) {
  return bytes / (device.memory_bandwidth * device.memory_efficiency);
}

Seconds device_time(const Demand& demand, DType compute, const DeviceProfile& device) {
  const Seconds stream = stream_time(demand.bytes, device);
  switch (demand.kind) {
    case WorkKind::kGemm: {
      const FlopsPerSecond rate = device.peak(peak_name(compute)) * device.gemm_efficiency;
      return std::max(demand.flops / rate, stream) + device.gemm_overhead;
    }
    case WorkKind::kAttention: {
      const FlopsPerSecond rate = device.peak(peak_name(compute)) * device.attention_efficiency;
      return std::max(demand.flops / rate, stream);
    }
    case WorkKind::kMemory:
    case WorkKind::kHost:
      return stream;
  }
  ZPLAN_ASSERT(false);
  return stream;
}

BytesPerSecond core_rate(const Demand& demand, const HostProfile& host, int ranks) {
  if (demand.flops.value == 0) return {std::numeric_limits<double>::infinity()};
  const FlopsPerSecond cores = host.core_flops * (static_cast<double>(host.cpu_cores) / ranks);
  return {static_cast<double>(demand.bytes.value) / (demand.flops / cores).value};
}

}  // namespace zplan
