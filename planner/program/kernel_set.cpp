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

constexpr RunsOn kCpu = RunsOn::kCpu, kCuda = RunsOn::kCuda, kNowhere = RunsOn::kNowhere;

// fp16 gradients underflow without loss scaling, bf16 has the exponent of fp32 [Micikevicius18].
constexpr std::array<KernelSet, 22> kSets{{
    // id, compute, statistics, loss_scaling, runs_on, fused_attention, fused_neighbours,
    // workspace, capability
    {"cpu.f64", DType::kF64, DType::kF64, false, kCpu, true, false, kCpuWorkspace},
    {"cpu.f32", DType::kF32, DType::kF32, false, kCpu, true, false, kCpuWorkspace},
    {"cpu.bf16", DType::kBf16, DType::kF32, false, kCpu, true, false, kCpuWorkspace},
    {"cpu.fp16", DType::kF16, DType::kF32, true, kCpu, true, false, kCpuWorkspace},
    {"cpu.f64.unfused", DType::kF64, DType::kF64, false, kCpu, false, false, kCpuWorkspace},
    {"cpu.f32.unfused", DType::kF32, DType::kF32, false, kCpu, false, false, kCpuWorkspace},
    {"cpu.f64.fused", DType::kF64, DType::kF64, false, kCpu, true, true, kCpuWorkspace},
    {"cpu.f32.fused", DType::kF32, DType::kF32, false, kCpu, true, true, kCpuWorkspace},
    {"cuda.sm70.fp32", DType::kF32, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 70},
    {"cuda.sm70.fp16", DType::kF16, DType::kF32, true, kCuda, true, true, kCudaWorkspace, 70},
    {"cuda.sm70.fp16.unfused", DType::kF16, DType::kF32, true, kNowhere, false, false,
     kCudaWorkspace, 70},
    {"cuda.sm80.fp32", DType::kF32, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 80},
    {"cuda.sm80.bf16", DType::kBf16, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 80},
    {"cuda.sm80.fp16", DType::kF16, DType::kF32, true, kCuda, true, true, kCudaWorkspace, 80},
    {"cuda.sm80.bf16.unfused", DType::kBf16, DType::kF32, false, kNowhere, false, false,
     kCudaWorkspace, 80},
    {"cuda.sm89.bf16", DType::kBf16, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 89},
    {"cuda.sm90.fp32", DType::kF32, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 90},
    {"cuda.sm90.bf16", DType::kBf16, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 90},
    {"cuda.sm90.fp16", DType::kF16, DType::kF32, true, kCuda, true, true, kCudaWorkspace, 90},
    {"cuda.sm100.fp32", DType::kF32, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 100},
    {"cuda.sm100.bf16", DType::kBf16, DType::kF32, false, kCuda, true, true, kCudaWorkspace, 100},
    {"cuda.sm100.fp16", DType::kF16, DType::kF32, true, kCuda, true, true, kCudaWorkspace, 100},
}};

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
    default:
      return true;
  }
}

}  // namespace zplan
