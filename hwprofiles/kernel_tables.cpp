#include "hwprofiles/kernel_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "hwprofiles/csv_table.h"
#include "hwprofiles/hw_profile.h"

namespace zplan {
namespace {

// [derived] tiles of cuBLAS and the rate of each against the largest, from the tables.
struct Tile {
  std::int64_t m, n;
  double rate;
};
constexpr Tile kTiles[] = {{256, 128, 1},  {128, 256, 1},  {128, 128, 0.93},
                           {128, 64, 0.8}, {64, 128, 0.8}, {64, 64, 0.62}};
// [derived] of a product's operands at the start of a tile, in elements of k: what keeps products
// of small k, as those of attention heads, below the rate of long ones.
constexpr std::int64_t kTileStart = 32;
constexpr double kProductMemoryRate = 0.8;  // [derived] of the memory's bandwidth, from the tables
// [derived] trtllm rows and sglang rows of A100 differ by this factor where both have a shape.
constexpr double kSlowerA100Source = 1.045;

double bytes_per_element(std::string_view format) {
  if (format == "fp8") return 1;
  return format == "fp32" ? 4 : format == "fp64" ? 8 : 2;
}

double causal_flop(const AttentionSize& s) {
  return 2.0 * static_cast<double>(s.batch * s.heads * s.head_size) *
         static_cast<double>(s.sequence) * static_cast<double>(s.sequence + 1);
}

std::array<double, 3> place_of(const AttentionSize& s) {
  return log_place(static_cast<double>(s.batch * s.heads * s.sequence),
                   static_cast<double>(s.sequence), static_cast<double>(s.head_size));
}

}  // namespace

KernelTables::KernelTables(std::string name) : name_(std::move(name)) {}

KernelTables::~KernelTables() = default;

Seconds tile_time(const ProductSize& size, std::string_view format, const DeviceProfile& device) {
  const double rate = device.peak(format).value * device.gemm_efficiency;
  const double sms = std::max(1, device.sm_count);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const auto tiles =
        static_cast<double>(size.batch * ceil_div(size.m, tile.m) * ceil_div(size.n, tile.n));
    const double work =
        2.0 * static_cast<double>(tile.m * tile.n) * static_cast<double>(size.k + kTileStart);
    best = std::min(best, std::ceil(tiles / sms) * sms * work / (rate * tile.rate));
  }
  const double elements =
      static_cast<double>(size.batch) * static_cast<double>(size.m * size.k + size.k * size.n);
  const double out = static_cast<double>(size.batch) * static_cast<double>(size.m * size.n);
  const double bytes =
      elements * bytes_per_element(format) + out * std::max(2.0, bytes_per_element(format));
  const double stream = bytes / (device.memory_bandwidth.value * kProductMemoryRate);
  return Seconds{std::max(best, stream)} + device.gemm_overhead;
}

int KernelTables::attention_generation() const {
  if (name_.starts_with("h100") || name_.starts_with("h200")) return 3;
  return name_.starts_with("b200") || name_.starts_with("b300") || name_.starts_with("gb") ? 4 : 2;
}

void KernelTables::read_products(std::string_view format, const DeviceProfile& device,
                                 NearPoints& out) const {
  const std::string_view wanted = format == "fp8" ? "fp8_tensor" : "bf16";
  const bool sixteen_bit = format == "bf16" || format == "fp16";
  const auto table = find_table("gemm_" + name_);
  if (!table || !(sixteen_bit || format == "fp8")) return;
  const std::size_t m = table->column("m"), n = table->column("n"), k = table->column("k");
  const std::size_t dtype = table->column("dtype"), time = table->column("time_us");
  const std::size_t source = table->column("source");
  for (std::size_t row = 0; row < table->rows(); ++row) {
    // Weights of the vllm rows are uninitialised memory, which draws less power.
    if (table->text(row, dtype) != wanted || table->text(row, source).starts_with("vllm")) continue;
    const bool slower = name_ == "a100_sxm" && table->text(row, source).starts_with("sglang");
    const ProductSize size{static_cast<std::int64_t>(table->number(row, m)),
                           static_cast<std::int64_t>(table->number(row, n)),
                           static_cast<std::int64_t>(table->number(row, k))};
    const double measured = table->number(row, time) * 1e-6 / (slower ? kSlowerA100Source : 1);
    const auto place = log_place(static_cast<double>(size.m), static_cast<double>(size.n),
                                 static_cast<double>(size.k));
    out.add(place, std::log(measured / tile_time(size, format, device).value));
  }
}

Seconds KernelTables::product(const ProductSize& size, std::string_view format,
                              const DeviceProfile& device) const {
  const Seconds tiles = tile_time(size, format, device);
  const std::lock_guard lock(mutex_);
  Products& own = products_[std::string(format)];
  if (!own.read) read_products(format, device, own.points);
  own.read = true;
  if (own.points.at.empty() || size.batch > 1) return tiles;
  const auto [at, is_new] = own.known.try_emplace(size);
  if (is_new) {
    at->second = std::exp(
        own.points.mean_near(log_place(static_cast<double>(size.m), static_cast<double>(size.n),
                                       static_cast<double>(size.k)),
                             {1, 1, 1}));
  }
  const double flop = 2.0 * static_cast<double>(size.m * size.n) * static_cast<double>(size.k);
  return std::max(tiles * at->second, Seconds{flop / device.peak(format).value});
}

void KernelTables::read_attention(const DeviceProfile& device) const {
  const auto table = find_table("attention_" + name_);
  if (!table) return;
  const std::size_t batch = table->column("batch"), heads = table->column("heads");
  const std::size_t sequence = table->column("seq"), head = table->column("head_dim");
  const std::size_t causal = table->column("causal"), time = table->column("time_us");
  const std::size_t source = table->column("source");
  for (std::size_t row = 0; row < table->rows(); ++row) {
    if (table->text(row, causal) != "1") continue;
    if (name_ == "a100_sxm" && !table->text(row, source).starts_with("sglang")) continue;
    const AttentionSize size{static_cast<std::int64_t>(table->number(row, batch)),
                             static_cast<std::int64_t>(table->number(row, heads)),
                             static_cast<std::int64_t>(table->number(row, sequence)),
                             static_cast<std::int64_t>(table->number(row, head))};
    const double rate = causal_flop(size) / (table->number(row, time) * 1e-6);
    attention_.add(place_of(size), std::log(rate / device.peak("bf16").value));
  }
}

double KernelTables::attention_rate(const AttentionSize& size, const DeviceProfile& device) const {
  const std::lock_guard lock(mutex_);
  if (!attention_read_) read_attention(device);
  attention_read_ = true;
  if (attention_.at.empty()) return 0;
  const auto [at, is_new] = attention_known_.try_emplace(size);
  // How many heads there are in all matters less than how long and wide each is.
  if (is_new) at->second = std::exp(attention_.mean_near(place_of(size), {0.3, 2, 2}));
  return at->second;
}

}  // namespace zplan
