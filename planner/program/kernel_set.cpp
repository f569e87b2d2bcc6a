#include "planner/program/kernel_set.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/nearest.h"

namespace zplan {
namespace {

// [assumed] enough for the blocking of attention and packed matrix products of the CPU executor.
constexpr Bytes kCpuWorkspace{8 << 20};
// [assumed] the cap given to matrix product libraries; one buffer per compute lane.
constexpr Bytes kCudaWorkspace{32 << 20};

constexpr RunsOn kCpu = RunsOn::kCpu;

// fp16 gradients underflow without loss scaling, bf16 has the exponent of fp32 [Micikevicius18].
constexpr KernelSet cuda(std::string_view id, DType compute, int capability) {
  return {.id = id,
          .compute = compute,
          .statistics = DType::kF32,
          .loss_scaling = compute == DType::kF16,
          .runs_on = RunsOn::kCuda,
          .fused_attention = true,
          .fused_neighbours = true,
          .workspace = kCudaWorkspace,
          .capability = capability};
}

// As training was before fused kernels.
constexpr KernelSet unfused(std::string_view id, DType compute, int capability) {
  KernelSet set = cuda(id, compute, capability);
  set.fused_attention = set.fused_neighbours = false;
  set.dropout = true;
  return set;
}

// Everything in bf16 in memory: planned and simulated only.
constexpr KernelSet in_fp8(KernelSet set) {
  set.runs_on = RunsOn::kNowhere;
  set.layer_products = LayerProducts::kFp8;
  return set;
}
constexpr KernelSet fp8(std::string_view id, int capability) {
  return in_fp8(cuda(id, DType::kBf16, capability));
}
constexpr KernelSet fp8_unfused(std::string_view id, int capability) {
  return in_fp8(unfused(id, DType::kBf16, capability));
}

constexpr std::array kSets{
    // id, compute, statistics, loss_scaling, runs_on, fused_attention, fused_neighbours, workspace
    KernelSet{"cpu.f64", DType::kF64, DType::kF64, false, kCpu, true, false, kCpuWorkspace},
    KernelSet{"cpu.f32", DType::kF32, DType::kF32, false, kCpu, true, false, kCpuWorkspace},
    KernelSet{"cpu.bf16", DType::kBf16, DType::kF32, false, kCpu, true, false, kCpuWorkspace},
    KernelSet{"cpu.fp16", DType::kF16, DType::kF32, true, kCpu, true, false, kCpuWorkspace},
    KernelSet{"cpu.f64.unfused", DType::kF64, DType::kF64, false, kCpu, false, false,
              kCpuWorkspace},
    KernelSet{"cpu.f32.unfused", DType::kF32, DType::kF32, false, kCpu, false, false,
              kCpuWorkspace},
    KernelSet{"cpu.f64.fused", DType::kF64, DType::kF64, false, kCpu, true, true, kCpuWorkspace},
    KernelSet{"cpu.f32.fused", DType::kF32, DType::kF32, false, kCpu, true, true, kCpuWorkspace},
    cuda("cuda.sm70.fp32", DType::kF32, 70),
    cuda("cuda.sm70.fp16", DType::kF16, 70),
    unfused("cuda.sm70.fp32.unfused", DType::kF32, 70),
    unfused("cuda.sm70.fp16.unfused", DType::kF16, 70),
    cuda("cuda.sm80.fp32", DType::kF32, 80),
    cuda("cuda.sm80.bf16", DType::kBf16, 80),
    cuda("cuda.sm80.fp16", DType::kF16, 80),
    unfused("cuda.sm80.bf16.unfused", DType::kBf16, 80),
    unfused("cuda.sm80.fp16.unfused", DType::kF16, 80),
    cuda("cuda.sm89.bf16", DType::kBf16, 89),
    cuda("cuda.sm89.fp16", DType::kF16, 89),
    unfused("cuda.sm89.bf16.unfused", DType::kBf16, 89),
    unfused("cuda.sm89.fp16.unfused", DType::kF16, 89),
    fp8("cuda.sm89.fp8", 89),
    fp8_unfused("cuda.sm89.fp8.unfused", 89),
    cuda("cuda.sm90.fp32", DType::kF32, 90),
    cuda("cuda.sm90.bf16", DType::kBf16, 90),
    cuda("cuda.sm90.fp16", DType::kF16, 90),
    unfused("cuda.sm90.bf16.unfused", DType::kBf16, 90),
    unfused("cuda.sm90.fp16.unfused", DType::kF16, 90),
    fp8("cuda.sm90.fp8", 90),
    fp8_unfused("cuda.sm90.fp8.unfused", 90),
    cuda("cuda.sm100.fp32", DType::kF32, 100),
    cuda("cuda.sm100.bf16", DType::kBf16, 100),
    cuda("cuda.sm100.fp16", DType::kF16, 100),
    unfused("cuda.sm100.bf16.unfused", DType::kBf16, 100),
    unfused("cuda.sm100.fp16.unfused", DType::kF16, 100),
    fp8("cuda.sm100.fp8", 100),
    fp8_unfused("cuda.sm100.fp8.unfused", 100),
    cuda("cuda.sm120.bf16", DType::kBf16, 120),
    cuda("cuda.sm120.fp16", DType::kF16, 120),
    unfused("cuda.sm120.bf16.unfused", DType::kBf16, 120),
    unfused("cuda.sm120.fp16.unfused", DType::kF16, 120),
    fp8("cuda.sm120.fp8", 120),
    fp8_unfused("cuda.sm120.fp8.unfused", 120),
};

}  // namespace

std::span<const KernelSet> kernel_sets() { return kSets; }

const KernelSet& find_kernel_set(std::string_view id) {
  for (const KernelSet& set : kSets)
    if (set.id == id) return set;
  std::vector<std::string> ids;
  for (const KernelSet& set : kSets) ids.emplace_back(set.id);
  throw_bad_input(fmt::format("expected a kernel set ({}), got \"{}\"{}", fmt::join(ids, ", "), id,
                              did_you_mean(id, ids)));
}

bool is_planned_only(KernelId kernel) {
  return kernel == KernelId::kDropoutForward || kernel == KernelId::kDropoutBackward ||
         kernel == KernelId::kDropoutResidualAdd;
}

bool multiplies_in_fp8(const KernelSet& set, KernelId kernel) {
  if (set.layer_products != LayerProducts::kFp8) return false;
  switch (kernel) {
    case KernelId::kLinearForward:
    case KernelId::kLinearInputGradient:
    case KernelId::kLinearWeightGradient:
    case KernelId::kMatmulForward:
    case KernelId::kMatmulWeightGradient:
    case KernelId::kLinearGeluForward:
    case KernelId::kGeluInputGradient:
      return true;
    default:
      return false;
  }
}

bool declares(const KernelSet& set, KernelId kernel) {
  switch (kernel) {
    case KernelId::kAttentionForward:
    case KernelId::kAttentionBackward:
      return set.fused_attention;
    case KernelId::kAttentionScores:
    case KernelId::kSoftmaxForward:
    case KernelId::kAttentionContext:
    case KernelId::kAttentionContextGradient:
    case KernelId::kSoftmaxBackward:
    case KernelId::kAttentionScoresGradient:
      return !set.fused_attention;
    case KernelId::kLinearGeluForward:
    case KernelId::kGeluInputGradient:
    case KernelId::kResidualLayerNormForward:
    case KernelId::kResidualRmsNormForward:
      return set.fused_neighbours;
    case KernelId::kDropoutForward:
    case KernelId::kDropoutBackward:
    case KernelId::kDropoutResidualAdd:
      return set.dropout;
    default:
      return true;
  }
}

}  // namespace zplan
