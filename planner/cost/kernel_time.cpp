#include "planner/cost/kernel_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "hwprofiles/kernel_tables.h"
#include "planner/core/error.h"
#include "planner/cost/autocast.h"
#include "planner/cost/module_kernels.h"
#include "planner/cost/vector_attention.h"
#include "planner/program/kernels/fp8_products.h"
#include "planner/program/kernels/fused_attention.h"

namespace zplan {

std::string_view peak_name(DType dtype) {
  constexpr std::array<std::string_view, kDTypeCount> names{"fp64", "fp32",  "fp16",
                                                            "bf16", "int32", "uint8"};
  return names[static_cast<std::size_t>(dtype)];
}

namespace {

// Between the start and the end of a kernel without work.
Seconds overhead_of(const DeviceProfile& device) {
  return device.sm_count > 0 ? device.gemm_overhead : Seconds{0};
}

// The casts of the operands of a product in fp8, one kernel after the other.
RestingTime cast_time(const Product& product, const DeviceProfile& device,
                      const StackRates& stack) {
  return stream_time(fp8_cast_bytes(product), device)
      .after(overhead_of(device) * kFp8CastKernels)
      .times(stack.fp8_casts, constant_of(&StackRates::fp8_casts));
}

// [MatMul-Guide sec 2.2] cuBLAS before 11.0 takes tensor cores where all sides are multiples of 16
// bytes, else the units for vectors, with a quarter of the rate on V100 and A100: 31 of 125 and 78
// of 312 TFLOP/s [CUDA-Guide]. That later versions, which may take tensor cores there less
// efficiently, are as slow is [assumed], and so is the ratio of 4 on later devices.
double without_tensor_cores(const Product& p, std::string_view format) {
  constexpr std::int64_t kNumbers = 8;  // of 16 bits in 16 bytes
  constexpr double kTensorOverVector = 4;
  const bool aligned = p.m % kNumbers == 0 && p.n % kNumbers == 0 && p.k % kNumbers == 0;
  return aligned || !(format == "fp16" || format == "bf16") ? 1 : kTensorOverVector;
}

// Returns whether the products of experts are kernels that share no wave of the device.
bool are_apart(KernelId kernel, const Product& p, const StackRates& stack) {
  return stack.grouped_apart == 1 && p.batch > 1 && kernel_def(kernel).layer_product;
}

// Several products at once are those of attention, or of experts, which are of a layer's matrices.
RestingTime product_time(KernelId kernel, const Demand& demand, std::string_view format,
                         const DeviceProfile& device, const StackRates& stack) {
  const RestingTime stream = stream_time(demand.bytes, device);
  RestingTime work{{}, {{constant_of(HardwareTime::kProducts), 1}}};
  if (device.sm_count == 0) {
    work.time = demand.flops / (device.peak(format) * device.gemm_efficiency);
    work = work.times(stack.gemm, constant_of(&StackRates::gemm));
    return slower(work, stream).after(device.gemm_overhead);
  }
  const Product& p = demand.product;
  const bool apart = are_apart(kernel, p, stack);
  const ProductSize size{p.m, p.n, p.k, apart ? 1 : p.batch};
  work.time = device.tables ? device.tables->product(size, format, p.phase, device) *
                                  device.tables->settled(size, p.phase, device)
                            : tile_time(size, format, device);
  const std::int64_t times = p.times * (apart ? p.batch : 1);
  work.time = work.time * (static_cast<double>(times) * device.sustained);
  const bool of_scores = p.batch > 1 && !kernel_def(kernel).layer_product;
  double StackRates::*const rate = of_scores ? &StackRates::scores : &StackRates::gemm;
  if (of_scores) work.time = work.time * without_tensor_cores(p, format);
  work = work.times(stack.*rate, constant_of(rate));
  const bool codes = is_of_codes(format);
  if (codes) work = work.times(stack.gemm_fp8, constant_of(&StackRates::gemm_fp8));
  const RestingTime alone = slower(work, stream);
  if (!codes || stack.fp8_casts == 0) return alone;
  return both(cast_time(p, device, stack), alone);
}

// By the table: the time of all pairs of a causal mask, or of none, x the share that is seen.
std::optional<Seconds> measured_attention(const AttentionWork& work, std::string_view format,
                                          const DeviceProfile& device) {
  if (!device.tables || !(format == "bf16" || format == "fp16")) return std::nullopt;
  const AttentionSize size{.batch = work.batch,
                           .heads = work.heads,
                           .sequence = work.sequence,
                           .head_size = work.head_size,
                           .groups = work.groups,
                           .keys = work.keys,
                           .sees_all = work.sees_all,
                           .backward = work.backward};
  const auto time = device.tables->attention(size, device);
  if (!time) return std::nullopt;
  return *time * (static_cast<double>(work.pairs) / size.pairs());
}

// [PyTorch] Of scaled_dot_product_attention's kernels FlashAttention takes no mask but the causal
// one. With a tensor, that of padding for one, the memory-efficient kernel runs, which works out
// the pairs that are masked as well. On an A100 it takes 1343.3 us without a mask, where
// FlashAttention-2 takes 714.9 [xFormers issue 924]; behind the first FlashAttention it is by 5 %
// forward and by 55 % backward [xFormers pull request 362]; [derived] as if the second one gained
// as much over the first backward as forward.
constexpr double kMaskedForward = 1343.3 / 714.9;
constexpr double kMaskedBackward = kMaskedForward * 1.55 / 1.05;

Demand with_all_pairs(Demand demand) {
  AttentionWork& work = demand.attention;
  const std::int64_t keys = work.keys == 0 ? work.sequence : work.keys;
  const double more = static_cast<double>(work.sequence * keys) / static_cast<double>(work.pairs);
  demand.flops = {std::llround(static_cast<double>(demand.flops.value) * more)};
  work.pairs = work.sequence * keys;
  work.sees_all = true;
  return demand;
}

RestingTime attention_time(Demand demand, std::string_view format, const DeviceProfile& device,
                           const StackRates& stack) {
  if (stack.dense_mask) demand = with_all_pairs(demand);
  const AttentionWork& work = demand.attention;
  const auto measured = measured_attention(work, format, device);
  RestingTime time{{}, {{constant_of(HardwareTime::kAttention), 1}}};
  time.time = measured.value_or(demand.flops / (device.peak(format) * device.attention_efficiency));
  double StackRates::*const own =
      work.backward ? &StackRates::attention_backward : &StackRates::attention_forward;
  time = time.times(stack.*own, constant_of(own));
  if (stack.dense_mask) time.time = time.time * (work.backward ? kMaskedBackward : kMaskedForward);
  if (device.tables && device.tables->attention_generation() > 2)
    time = time.times(stack.attention_older, constant_of(&StackRates::attention_older));
  return slower(time, stream_time(demand.bytes, device)).after(overhead_of(device));
}

// The rate of what a kernel moves over the traffic that the modules have; none: just that.
double StackRates::*traffic_rate(KernelId kernel) {
  switch (kernel_def(kernel).traffic) {
    case Traffic::kElementwise:
      return &StackRates::elementwise;
    case Traffic::kSoftmax:
      return &StackRates::softmax;
    case Traffic::kLoss:
      return &StackRates::loss;
    case Traffic::kOptimizer:
      return &StackRates::optimizer;
    case Traffic::kCompulsory:
      break;
  }
  return nullptr;
}

// [PyTorch] torch.optim's AdamW by lists of tensors: decay updates the parameter (8 bytes in fp32),
// the first moment moves to the gradient (12), the second is scaled (8) and takes its square (12),
// its root (8) is divided by the correction (8) and epsilon added (8), and the parameter takes the
// quotient (16): 80 bytes where one kernel moves 28, those of parameter, gradient and moments.
constexpr double kForeachTraffic = 80.0 / 28;
constexpr double kForeachKernels = 8;

RestingTime memory_time(KernelId kernel, const Demand& demand, const DeviceProfile& device,
                        const StackRates& stack) {
  ModuleKernels has = module_kernels(kernel, stack.modules);
  if (stack.autocast && stack.modules == Modules::kCompiled)
    has.traffic *= autocast_traffic(kernel);
  if (stack.foreach_update && kernel == KernelId::kAdamW) {
    has.traffic *= kForeachTraffic;
    has.launches *= kForeachKernels;
  }
  RestingTime time = stream_time(demand.bytes, device);
  time.time = time.time * has.traffic;
  if (double StackRates::*const rate = traffic_rate(kernel))
    time = time.times(stack.*rate, constant_of(rate));
  return time.after(overhead_of(device) * has.launches);
}

}  // namespace

RestingTime stream_time(Bytes bytes, const DeviceProfile& device) {
  return {bytes / (device.memory_bandwidth * device.memory_efficiency),
          {{constant_of(HardwareTime::kMemory), 1}}};
}

RestingTime kernel_time(KernelId kernel, const Demand& demand, std::string_view format,
                        const DeviceProfile& device, const StackRates& stack) {
  switch (demand.kind) {
    case WorkKind::kGemm:
      return product_time(kernel, demand, format, device, stack);
    case WorkKind::kAttention:
      return attention_time(demand, format, device, stack);
    case WorkKind::kMemory:
    case WorkKind::kHost:
      return memory_time(kernel, demand, device, stack);
  }
  ZPLAN_ASSERT(false);
  return {};
}

RestingTime epilogue_time(Bytes bytes, const DeviceProfile& device, const StackRates& stack) {
  if (bytes.value == 0) return {};
  RestingTime time = stream_time(bytes, device)
                         .times(stack.elementwise, constant_of(&StackRates::elementwise))
                         .after(overhead_of(device));
  time.time = time.time * stack.overall;
  return time;
}

const KernelSet* built_in_kernels(const Job& job) {
  for (const KernelSet& set : kernel_sets()) {
    if (set.id == job.kernel_set) return &set;
  }
  return nullptr;
}

std::string_view format_of(const Program& program, const Node& node, const KernelSet* kernels) {
  const std::string_view stored = peak_name(program.operands(node)[0].dtype);
  if (kernels == nullptr) return stored;
  // [Jordan24] Newton and Schulz's iteration is stable in bf16, in which software runs it.
  constexpr int kFirstWithBf16 = 80;
  if (node.kernel == KernelId::kOrthogonalise && kernels->capability >= kFirstWithBf16)
    return "bf16";
  return multiplies_in_fp8(*kernels, node.kernel, program.operands(node)) ? kernels->codes.name
                                                                          : stored;
}

namespace {

// Of whichever kernel the set has for it.
RestingTime alone(KernelId kernel, const Demand& demand, std::string_view format,
                  const KernelSet* kernels, const Cluster& cluster) {
  const DeviceProfile& device = cluster.node.device;
  if (demand.kind == WorkKind::kAttention && kernels != nullptr &&
      runs_on_vectors(*kernels, demand.attention.widest)) {
    if (const auto own = vector_attention_time(demand.attention, device, cluster.stack))
      return *own;
  }
  return kernel_time(kernel, demand, format, device, cluster.stack);
}

}  // namespace

bool has_unaligned_head(const Program& program) {
  constexpr std::int64_t kAligned = 8;
  for (const Node& node : program.nodes) {
    if (node.kind == OpKind::kKernel && node.kernel == KernelId::kCrossEntropy)
      return program.attributes_of(node)[0].base % kAligned != 0;
  }
  return false;
}

RestingTime device_time(const Program& program, const Node& node, const Demand& demand,
                        const KernelSet* kernels, bool unaligned_head, const Cluster& cluster) {
  const std::string_view format = format_of(program, node, kernels);
  RestingTime time = alone(node.kernel, demand, format, kernels, cluster);
  time.time = time.time * cluster.stack.overall;
  const bool odd =
      demand.kind == WorkKind::kGemm && node.role.part == Part::kHead && unaligned_head;
  if (!odd) return time;
  return time.times(cluster.stack.unaligned_head, constant_of(&StackRates::unaligned_head));
}

BytesPerSecond core_rate(const Demand& demand, const HostProfile& host, int ranks) {
  if (demand.flops.value == 0) return {std::numeric_limits<double>::infinity()};
  const FlopsPerSecond cores = host.core_flops * (static_cast<double>(host.cpu_cores) / ranks);
  return {static_cast<double>(demand.bytes.value) / (demand.flops / cores).value};
}

}  // namespace zplan
