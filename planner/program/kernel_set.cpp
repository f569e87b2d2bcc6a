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

// fp16 gradients underflow without loss scaling, bf16 has the exponent of fp32 [Micikevicius18].
constexpr std::array<KernelSet, 12> kSets{{
    // id, compute, statistics, loss_scaling, runs_on_cpu, fused_attention, workspace
    {"cpu.f64", DType::kF64, DType::kF64, false, true, true, kCpuWorkspace},
    {"cpu.f32", DType::kF32, DType::kF32, false, true, true, kCpuWorkspace},
    {"cpu.bf16", DType::kBf16, DType::kF32, false, true, true, kCpuWorkspace},
    {"cpu.fp16", DType::kF16, DType::kF32, true, true, true, kCpuWorkspace},
    {"cpu.f64.unfused", DType::kF64, DType::kF64, false, true, false, kCpuWorkspace},
    {"cpu.f32.unfused", DType::kF32, DType::kF32, false, true, false, kCpuWorkspace},
    {"cuda.sm70.fp16", DType::kF16, DType::kF32, true, false, true, kCudaWorkspace},
    {"cuda.sm70.fp16.unfused", DType::kF16, DType::kF32, true, false, false, kCudaWorkspace},
    {"cuda.sm80.bf16", DType::kBf16, DType::kF32, false, false, true, kCudaWorkspace},
    {"cuda.sm80.bf16.unfused", DType::kBf16, DType::kF32, false, false, false, kCudaWorkspace},
    {"cuda.sm89.bf16", DType::kBf16, DType::kF32, false, false, true, kCudaWorkspace},
    {"cuda.sm90.bf16", DType::kBf16, DType::kF32, false, false, true, kCudaWorkspace},
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

}  // namespace zplan
