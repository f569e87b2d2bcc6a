#include "planner/program/kernels/kernel_set.h"

#include <fmt/format.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {
namespace {

// [assumed] enough for the blocking of attention and packed matrix products of the CPU executor.
constexpr Bytes kCpuWorkspace{8 << 20};
// [assumed] the cap given to matrix product libraries; one buffer per compute lane.
constexpr Bytes kCudaWorkspace{32 << 20};

// fp16 gradients underflow without loss scaling, bf16 has the exponent of fp32 [Micikevicius18].
KernelSet basic_set(RunsOn runs_on, DType compute, Bytes workspace) {
  return {.id = {},
          .compute = compute,
          .statistics = compute == DType::kF64 ? DType::kF64 : DType::kF32,
          .loss_scaling = compute == DType::kF16,
          .runs_on = runs_on,
          .fused_attention = true,
          .fused_neighbours = false,
          .workspace = workspace};
}

KernelSet cpu_set(DType compute, bool fused_attention, bool fused_neighbours) {
  KernelSet set = basic_set(RunsOn::kCpu, compute, kCpuWorkspace);
  set.fused_attention = fused_attention;
  set.fused_neighbours = fused_neighbours;
  set.dropout = !fused_attention;
  return set;
}

// A row of codes has one scale, or blocks as in [DeepSeek24b sec 3.3.2], [OCP-MX] or [Abecassis25].
constexpr CodeFormat kPerTensor{}, kBlocks{.name = "fp8_block", .block = kFp8Block},
    kMxFp8{.name = "mxfp8", .block = 32, .scale_bytes = 1},
    kNvFp4{.name = "nvfp4", .bits = 4, .block = 16, .scale_bytes = 1};

// Devices of one compute capability: the formats that their fused sets compute in, those of the
// sets as training was before fused kernels, and the formats of codes that both multiply in. A
// device runs the sets of older ones as well.
struct Generation {
  int capability;
  std::vector<DType> fused, unfused;
  std::vector<CodeFormat> codes;
};

std::vector<Generation> generations() {
  using enum DType;
  return {{70, {kF32, kF16}, {kF32, kF16}, {}},
          {80, {kF32, kBf16, kF16}, {kBf16, kF16}, {}},
          {89, {kBf16, kF16}, {kBf16, kF16}, {kPerTensor}},
          {90, {kF32, kBf16, kF16}, {kBf16, kF16}, {kPerTensor, kBlocks}},
          {100, {kF32, kBf16, kF16}, {kBf16, kF16}, {kPerTensor, kBlocks, kMxFp8, kNvFp4}},
          {120, {kBf16, kF16}, {kBf16, kF16}, {kPerTensor}}};
}

class Table {
 public:
  Table() {
    add_cpu();
    for (const Generation& generation : generations()) add_cuda(generation);
    add_planned();
  }
  const std::vector<KernelSet>& sets() const { return sets_; }

 private:
  void add(std::string id, KernelSet set) {
    set.id = ids_.emplace_back(std::move(id));
    sets_.push_back(set);
  }
  void add_cpu();
  void add_cuda(const Generation& generation);
  void add_planned();

  std::deque<std::string> ids_;  // which stay where they are
  std::vector<KernelSet> sets_;
};

void Table::add_cpu() {
  using enum DType;
  add("cpu.f64", cpu_set(kF64, true, false));
  add("cpu.f32", cpu_set(kF32, true, false));
  add("cpu.bf16", cpu_set(kBf16, true, false));
  add("cpu.fp16", cpu_set(kF16, true, false));
  add("cpu.f64.unfused", cpu_set(kF64, false, false));
  add("cpu.f32.unfused", cpu_set(kF32, false, false));
  for (const DType type : {kF64, kF32}) {
    KernelSet set = cpu_set(type, true, false);
    set.layer_products = LayerProducts::kRoundedToFp8;
    set.codes = {.block = kFp8Block, .scale_bytes = sizeof(double)};
    add(type == kF64 ? "cpu.f64.fp8" : "cpu.f32.fp8", set);
    set.rounds_whole = true;
    set.codes.block = 0;
    add(type == kF64 ? "cpu.f64.fp8.whole" : "cpu.f32.fp8.whole", set);
  }
  add("cpu.f64.fused", cpu_set(kF64, true, true));
  add("cpu.f32.fused", cpu_set(kF32, true, true));
}

void Table::add_cuda(const Generation& generation) {
  const auto named = [&](std::string_view format, DType compute, bool fused) {
    KernelSet set = basic_set(RunsOn::kCuda, compute, kCudaWorkspace);
    set.id = ids_.emplace_back(
        fmt::format("cuda.sm{}.{}{}", generation.capability, format, fused ? "" : ".unfused"));
    set.capability = generation.capability;
    set.fused_attention = set.fused_neighbours = fused;
    set.dropout = !fused;
    return set;
  };
  const auto format = [](DType compute) {
    return compute == DType::kF32 ? "fp32" : compute == DType::kF16 ? "fp16" : "bf16";
  };
  for (const DType type : generation.fused) sets_.push_back(named(format(type), type, true));
  for (const DType type : generation.unfused) sets_.push_back(named(format(type), type, false));
  // Everything else is bf16 in memory. Kernels of this executor have one scale for each operand.
  for (const CodeFormat& codes : generation.codes)
    for (const bool fused : {true, false}) {
      KernelSet set = named(codes.name, DType::kBf16, fused);
      set.layer_products = LayerProducts::kFp8;
      set.codes = codes;
      if (codes.name != kPerTensor.name) set.runs_on = RunsOn::kNowhere;
      sets_.push_back(set);
    }
}

// Adds the sets of MI250X, MI300X, MI355X, of TPUs and of Trainium2. They serve to plan and to
// simulate, with what the fused kernels of NVIDIA's devices are [assumed].
void Table::add_planned() {
  KernelSet set = basic_set(RunsOn::kNowhere, DType::kBf16, kCudaWorkspace);
  set.fused_attention = set.fused_neighbours = true;
  for (const char* id : {"rocm.gfx90a.bf16", "rocm.gfx942.bf16", "rocm.gfx950.bf16", "tpu.v5p.bf16",
                         "tpu.v6e.bf16", "tpu.v7x.bf16", "neuron.trn2.bf16"})
    add(id, set);
}

}  // namespace

Bytes CodeFormat::row_bytes(std::int64_t elements) const {
  constexpr std::int64_t kBitsOfByte = 8;
  const std::int64_t scales = block == 0 ? 1 : ceil_div(elements, block);
  return {ceil_div(elements * bits, kBitsOfByte) + scales * scale_bytes};
}

std::span<const KernelSet> kernel_sets() {
  static const Table kTable;
  return kTable.sets();
}

const KernelSet& find_kernel_set(std::string_view id) {
  for (const KernelSet& set : kernel_sets())
    if (set.id == id) return set;
  std::vector<std::string> ids;
  for (const KernelSet& set : kernel_sets()) ids.emplace_back(set.id);
  throw_bad_input(fmt::format("expected a kernel set such as cuda.sm90.bf16, got \"{}\"{}", id,
                              nearest_or_page(id, ids, "zplan help kernel-sets")));
}

const KernelSet* other_attention(const KernelSet& set) {
  for (const KernelSet& other : kernel_sets())
    if (other.runs_on == set.runs_on && other.capability == set.capability &&
        other.compute == set.compute && other.layer_products == set.layer_products &&
        other.rounds_whole == set.rounds_whole && other.codes.name == set.codes.name &&
        other.fused_attention != set.fused_attention)
      return &other;
  return nullptr;
}

bool is_planned_only(KernelId kernel, RunsOn backend) {
  switch (kernel_def(kernel).sets) {
    case Sets::kDropout:
    case Sets::kPlannedOnCuda:
    case Sets::kMergedAttention:
    case Sets::kExperts:
    case Sets::kCodes:
      return backend != RunsOn::kCpu;
    default:
      return false;
  }
}

bool multiplies_in_fp8(const KernelSet& set, KernelId kernel) {
  return set.layer_products == LayerProducts::kFp8 && kernel_def(kernel).layer_product;
}

bool declares(const KernelSet& set, KernelId kernel) {
  switch (kernel_def(kernel).sets) {
    case Sets::kAll:
    case Sets::kPlannedOnCuda:
      return true;
    case Sets::kFusedAttention:
    case Sets::kMergedAttention:
      return set.fused_attention;
    case Sets::kUnfusedAttention:
      return !set.fused_attention;
    case Sets::kFusedNeighbours:
      return set.fused_neighbours;
    case Sets::kDropout:
      return set.dropout;
    case Sets::kExperts:
      return true;
    case Sets::kRoundsToFp8:
      return set.layer_products == LayerProducts::kRoundedToFp8;
    case Sets::kCodes:
      return set.layer_products != LayerProducts::kAsStored;
  }
  return false;
}

}  // namespace zplan
