#include "planner/cost/vector_attention.h"

#include <algorithm>

#include "planner/core/units.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

// Rows and columns of a tile, as exec/cuda/kernels/attention_kernels.cu has them.
struct Tile {
  std::int64_t rows, width;
  std::int64_t side() const {
    return std::min<std::int64_t>(rows, 16);
  }  // of its square of threads
  double rows_of_thread() const { return static_cast<double>(rows / side()); }
  double columns_of_thread() const { return static_cast<double>(width / side()); }
  // Per multiply-add: of two tiles of rows, and of scores with a tile of rows.
  double loads_of_scores() const { return 2 / rows_of_thread(); }
  double loads_of_sums() const { return 1 / rows_of_thread() + 1 / columns_of_thread(); }
};

constexpr std::int64_t kNarrow = 64, kMiddle = 128, kWide = 256;

std::int64_t width_of(std::int64_t head_size) {
  if (head_size <= kNarrow) return kNarrow;
  return head_size <= kMiddle ? kMiddle : round_up(head_size, kWide);
}

Tile forward_tile(std::int64_t width) { return {width <= kMiddle ? 32 : 16, width}; }

Tile backward_tile(std::int64_t width) {
  return {width <= kNarrow ? 32 : width <= kMiddle ? 16 : 8, width};
}

// fp32 multiply-adds of an SM in a clock [CUDA-Guide, arithmetic instructions]; nothing: the
// device's own kernel set is none of CUDA's.
std::optional<int> units_per_sm(const DeviceProfile& device) {
  constexpr int kAmpereOfDataCentres = 80;
  for (const KernelSet& set : kernel_sets())
    if (set.id == device.kernel_set && set.capability > 0)
      return set.capability <= kAmpereOfDataCentres ? 64 : 128;
  return std::nullopt;
}

}  // namespace

double shared_loads(const AttentionWork& work) {
  const std::int64_t width = width_of(work.widest);
  const auto products = static_cast<double>(work.batch * work.heads * width) *
                        static_cast<double>(work.pairs);  // multiply-adds of each
  if (work.backward) {
    const Tile tile = backward_tile(width);
    return products * (4 * tile.loads_of_scores() + 3 * tile.loads_of_sums());
  }
  const Tile tile = forward_tile(width);
  return products * (tile.loads_of_scores() + tile.loads_of_sums());
}

std::optional<double> shared_load_rate(const DeviceProfile& device) {
  constexpr double kBanks = 32;  // words per clock [CUDA-Guide, shared memory]
  const std::optional<int> units = units_per_sm(device);
  if (!units || !device.supports("fp32")) return std::nullopt;
  return device.peak("fp32").value / (2 * *units) * kBanks;
}

std::optional<RestingTime> vector_attention_time(const AttentionWork& work,
                                                 const DeviceProfile& device,
                                                 const StackRates& stack) {
  double StackRates::*const factor =
      work.backward ? &StackRates::vectors_backward : &StackRates::vectors_forward;
  const std::optional<double> rate = shared_load_rate(device);
  if (stack.*factor == 0 || !rate) return std::nullopt;
  const RestingTime time{Seconds{shared_loads(work) / *rate},
                         {{constant_of(HardwareTime::kAttention), 1}}};
  return time.times(stack.*factor, constant_of(factor)).after(device.gemm_overhead);
}

}  // namespace zplan
