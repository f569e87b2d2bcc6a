#include "planner/cost/kernel_time.h"

#include <algorithm>
#include <array>
#include <limits>

#include "planner/core/error.h"

namespace zplan {

std::string_view peak_name(DType dtype) {
  constexpr std::array<std::string_view, kDTypeCount> names{"fp64", "fp32",  "fp16",
                                                            "bf16", "int32", "uint8"};
  return names[static_cast<std::size_t>(dtype)];
}

namespace {

// [SimuMax] fused attention over sequences of 4096 on A100.
constexpr double kBackwardOverForward = 2.9;

// Between the start and the end of a kernel without work.
Seconds overhead_of(const DeviceProfile& device) {
  return device.sm_count > 0 ? device.gemm_overhead : Seconds{0};
}

Seconds product_time(const Demand& demand, std::string_view format, const DeviceProfile& device,
                     const StackRates& stack) {
  const Seconds stream = stream_time(demand.bytes, device);
  if (device.sm_count == 0) {
    const FlopsPerSecond rate = device.peak(format) * device.gemm_efficiency;
    return std::max(demand.flops / rate * stack.gemm, stream) + device.gemm_overhead;
  }
  const Product& p = demand.product;
  const ProductSize size{p.m, p.n, p.k, p.batch};
  const Seconds once = device.tables ? device.tables->product(size, format, device)
                                     : tile_time(size, format, device);
  const double factor = p.batch > 1 ? stack.scores : stack.gemm;
  const double fp8 = format == "fp8" ? stack.gemm_fp8 : 1;
  return std::max(once * (static_cast<double>(p.times) * device.sustained * factor * fp8), stream);
}

Seconds attention_time(const Demand& demand, std::string_view format, const DeviceProfile& device,
                       const StackRates& stack) {
  const AttentionWork& work = demand.attention;
  const bool newer = device.tables && device.tables->attention_generation() > 2;
  const double factor = (work.backward ? stack.attention_backward : stack.attention_forward) *
                        (newer ? stack.attention_older : 1);
  const AttentionSize size{work.batch, work.heads, work.sequence, work.head_size};
  const bool sixteen_bit = format == "bf16" || format == "fp16";
  const double rate =
      device.tables && sixteen_bit ? device.tables->attention_rate(size, device) : 0;
  const Seconds stream = stream_time(demand.bytes, device);
  if (rate == 0) {
    const FlopsPerSecond known = device.peak(format) * device.attention_efficiency;
    return std::max(demand.flops / known * factor, stream) + overhead_of(device);
  }
  const double causal_pairs =
      static_cast<double>(work.sequence) * static_cast<double>(work.sequence + 1) / 2;
  const double flop = 4.0 * static_cast<double>(work.batch * work.heads * work.head_size) *
                      causal_pairs;  // of the forward pass
  const Seconds forward{flop / (device.peak(format).value * rate)};
  return std::max(forward * (work.backward ? kBackwardOverForward * factor : factor), stream) +
         overhead_of(device);
}

// What a kernel moves over its compulsory traffic.
double traffic_factor(KernelId kernel, const StackRates& stack) {
  switch (kernel) {
    case KernelId::kSoftmaxForward:
    case KernelId::kSoftmaxBackward:
      return stack.softmax;
    case KernelId::kCrossEntropy:
    case KernelId::kCrossEntropyStatistics:
    case KernelId::kCrossEntropyParallel:
      return stack.loss;
    case KernelId::kAdamW:
    case KernelId::kSumSquares:
    case KernelId::kClipCoefficient:
      return stack.optimizer;
    case KernelId::kFillZero:
    case KernelId::kAccumulate:
    case KernelId::kCast:
      return 1;
    default:
      return stack.elementwise;
  }
}

}  // namespace

Seconds stream_time(Bytes bytes, const DeviceProfile& device) {
  return bytes / (device.memory_bandwidth * device.memory_efficiency);
}

Seconds kernel_time(KernelId kernel, const Demand& demand, std::string_view format,
                    const DeviceProfile& device, const StackRates& stack) {
  switch (demand.kind) {
    case WorkKind::kGemm:
      return product_time(demand, format, device, stack);
    case WorkKind::kAttention:
      return attention_time(demand, format, device, stack);
    case WorkKind::kMemory:
    case WorkKind::kHost:
      return stream_time(demand.bytes, device) * traffic_factor(kernel, stack) +
             overhead_of(device);
  }
  ZPLAN_ASSERT(false);
  return {};
}

const KernelSet* built_in_kernels(const Job& job) {
  for (const KernelSet& set : kernel_sets()) {
    if (set.id == job.kernel_set) return &set;
  }
  return nullptr;
}

std::string_view format_of(const Program& program, const Node& node, const KernelSet* kernels) {
  const bool fp8 = kernels != nullptr && multiplies_in_fp8(*kernels, node.kernel);
  return fp8 ? "fp8" : peak_name(program.operands(node)[0].dtype);
}

bool has_unaligned_head(const Program& program) {
  constexpr std::int64_t kAligned = 8;
  for (const Node& node : program.nodes) {
    if (node.kind == OpKind::kKernel && node.kernel == KernelId::kCrossEntropy)
      return program.attributes[node.attributes][0] % kAligned != 0;
  }
  return false;
}

Seconds device_time(const Program& program, const Node& node, const Demand& demand,
                    const KernelSet* kernels, bool unaligned_head, const Cluster& cluster) {
  const std::string_view format = format_of(program, node, kernels);
  const Seconds time = kernel_time(node.kernel, demand, format, cluster.node.device, cluster.stack);
  const bool odd =
      demand.kind == WorkKind::kGemm && node.role.part == Part::kHead && unaligned_head;
  return odd ? time * cluster.stack.unaligned_head : time;
}

BytesPerSecond core_rate(const Demand& demand, const HostProfile& host, int ranks) {
  if (demand.flops.value == 0) return {std::numeric_limits<double>::infinity()};
  const FlopsPerSecond cores = host.core_flops * (static_cast<double>(host.cpu_cores) / ranks);
  return {static_cast<double>(demand.bytes.value) / (demand.flops / cores).value};
}

}  // namespace zplan
