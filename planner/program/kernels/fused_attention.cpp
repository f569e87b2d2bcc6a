#include "planner/program/kernels/fused_attention.h"

#include <algorithm>

namespace zplan {
namespace {

// Little beside the memory of a device with tensor cores: on an H100 larger pieces gained at most 5
// % (reports/gpu_attention_scratch.md).
constexpr Bytes kLittle{272 << 20};
// What plans take beside the arrays of the formula [assumed].
constexpr Bytes kBeside{1 << 20};

constexpr int kAmpere = 80, kHopper = 90, kBlackwell = 100;

// Of which cuDNN has kernels at all.
bool has_some(const KernelSet& set) {
  const bool sixteen_bit = set.compute == DType::kBf16 || set.compute == DType::kF16;
  return sixteen_bit && set.fused_attention && set.capability >= kAmpere;
}

}  // namespace

bool has_tensor_cores(const KernelSet& set, std::int64_t head_size) {
  constexpr std::int64_t kAligned = 8, kLargest = 128, kLargestOfHopper = 256;
  constexpr std::int64_t kLatent = 192;  // keys of latent attention, whose values have 128
  if (!has_some(set) || head_size % kAligned != 0) return false;
  if (head_size <= kLargest) return true;
  if (set.capability >= kBlackwell) return head_size == kLatent || head_size == kLargestOfHopper;
  return set.capability >= kHopper && head_size <= kLargestOfHopper;
}

bool runs_on_vectors(const KernelSet& set, std::int64_t head_size) {
  return set.runs_on == RunsOn::kCuda && set.fused_attention && !has_tensor_cores(set, head_size);
}

Bytes fused_backward_whole(const FusedAttention& x, const KernelSet& set) {
  constexpr std::int64_t kFloat = 4, kHalf = 2;
  const std::int64_t rows = x.batch * x.heads * x.sequence, elements = rows * x.head_size;
  const std::int64_t times = set.capability >= kHopper ? 1 : 2;
  const bool shared = x.kv_heads != x.heads;
  return kBeside +
         Bytes{times * kFloat * elements + kFloat * rows + (shared ? 2 * kHalf * elements : 0)};
}

Bytes fused_backward_scratch(const FusedAttention& x, const KernelSet& set) {
  if (!has_tensor_cores(set, x.head_size)) return {0};
  const FusedAttention piece{1, x.sequence, x.heads / x.kv_heads, 1, x.head_size};
  return std::min(fused_backward_whole(x, set),
                  std::max(kLittle, fused_backward_whole(piece, set)));
}

}  // namespace zplan
