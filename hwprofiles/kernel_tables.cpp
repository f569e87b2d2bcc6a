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
// [derived] parts that the sums over k are cut into where there are fewer tiles than SMs; their
// float32 sums are written and added up again.
constexpr std::int64_t kSplits[] = {1, 2, 4, 8};
// [derived] share of a last wave's idle SMs that stays idle: kernels cut what is left into smaller
// tiles, or deal out its sums.
constexpr double kIdleShare = 0.5;
constexpr double kProductMemoryRate = 0.8;  // [derived] of the memory's bandwidth, from the tables
// [derived] sglang rows of A100 take so many times as long as trtllm rows where both have a shape.
// Neither machine is the usual one: what both would say counts half way between them.
constexpr double kSlowerA100Source = 1.045;

double bytes_per_element(std::string_view format) {
  constexpr double kNvFp4 = 0.5 + 1.0 / 16;  // a code of 4 bits, a scale of a byte for 16
  if (format == "nvfp4") return kNvFp4;
  if (is_of_codes(format)) return 1;
  return format == "fp32" ? 4 : format == "fp64" ? 8 : 2;
}

NearPoints::Place place_of(const ProductSize& s) {
  return log_place(static_cast<double>(s.m), static_cast<double>(s.n), static_cast<double>(s.k));
}
constexpr NearPoints::Place kScale{1, 1, 1};

ProductSize size_of_row(const CsvTable& table, std::size_t row) {
  const auto number = [&](const char* name) {
    return static_cast<std::int64_t>(table.number(row, table.column(name)));
  };
  return {number("m"), number("n"), number("k")};
}

ProductPhase phase_of_row(const CsvTable& table, std::size_t row) {
  const std::string_view phase = table.text(row, table.column("phase"));
  if (phase == "fwd") return ProductPhase::kForward;
  if (phase == "dgrad") return ProductPhase::kInputGradient;
  return table.text(row, table.column("out_dtype")) == "fp32" ? ProductPhase::kWeightGradient
                                                              : ProductPhase::kShortWeightGradient;
}

}  // namespace

KernelTables::KernelTables(std::string name, std::string settled, int left_out)
    : name_(std::move(name)),
      settled_name_(std::move(settled)),
      left_out_(left_out),
      attention_(name_, settled_name_, left_out) {}

KernelTables::~KernelTables() = default;

namespace {

// [derived] both at once: neither hides the other wholly where they take as long.
double overlapped(double products, double bytes) {
  const double a = products * products, b = bytes * bytes;
  return std::sqrt(std::sqrt(a * a + b * b));
}

// Of the sums of one tile size; `rate` of the device in flop/s.
double waves_time(const ProductSize& size, const Tile& tile, double sms, double rate,
                  double memory_rate) {
  constexpr double kSum = 4;  // bytes
  const auto tiles =
      static_cast<double>(size.batch * ceil_div(size.m, tile.m) * ceil_div(size.n, tile.n));
  const double results = static_cast<double>(size.batch) * static_cast<double>(size.m * size.n);
  double best = std::numeric_limits<double>::infinity();
  for (const std::int64_t split : kSplits) {
    const double parts = tiles * static_cast<double>(split);
    const auto steps = static_cast<double>(ceil_div(size.k, split) + kTileStart);
    const double work = 2.0 * static_cast<double>(tile.m * tile.n) * steps;
    const double sums =
        split == 1 ? 0 : results * kSum * static_cast<double>(split + 1) / memory_rate;
    const double waves =
        kIdleShare * std::ceil(parts / sms) + (1 - kIdleShare) * std::max(1.0, parts / sms);
    best = std::min(best, waves * sms * work / (rate * tile.rate) + sums);
    if (parts >= sms) break;
  }
  return best;
}

}  // namespace

Seconds tile_time(const ProductSize& size, std::string_view format, const DeviceProfile& device) {
  const double rate = device.peak(format).value * device.gemm_efficiency;
  const double memory_rate = device.memory_bandwidth.value * kProductMemoryRate;
  const double sms = std::max(1, device.sm_count);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles)
    best = std::min(best, waves_time(size, tile, sms, rate, memory_rate));
  const double elements =
      static_cast<double>(size.batch) * static_cast<double>(size.m * size.k + size.k * size.n);
  const double out = static_cast<double>(size.batch) * static_cast<double>(size.m * size.n);
  const double bytes =
      elements * bytes_per_element(format) + out * std::max(2.0, bytes_per_element(format));
  return Seconds{overlapped(best, bytes / memory_rate)} + device.gemm_overhead;
}

namespace {

// The quantisation of x before products: the kernels of all of them, and the bytes that it moves
// per element of x.
struct Cast {
  double kernels, moved;
};
constexpr Seconds kCastKernel{10e-6 / 3};  // [derived] a third of the shortest rows in fp8
// Rows in fp8 include it: several kernels, which read x twice and write bytes [derived].
constexpr Cast kCastOfRows{3, 5};
constexpr Cast kNoCast{0, 0};

// [TransformerEngine] A block of MXFP8 has its scale to itself: x is read once and written along
// rows and along columns. Of NVFP4 the tensor has a scale besides, for which it is read before.
// What is along columns the gradient of the weights reads, which casts nothing more. Before each
// product the scales of either operand are put into the order that tensor cores read. Where the
// products of experts are one kernel, so are these of all of them; casts to one scale stay apart.
Cast cast_of(std::string_view format, ProductPhase phase, std::int64_t batch) {
  if (!is_of_codes(format)) return kNoCast;
  if (format != "mxfp8" && format != "nvfp4")
    return {kCastOfRows.kernels * static_cast<double>(batch), kCastOfRows.moved};
  constexpr double kOrders = 2, kStored = 2;
  if (phase == ProductPhase::kWeightGradient || phase == ProductPhase::kShortWeightGradient)
    return {kOrders, 0};
  const double both_ways = 2 * bytes_per_element(format);
  if (format == "mxfp8") return {1 + kOrders, kStored + both_ways};
  return {2 + kOrders, 2 * kStored + both_ways};
}

Seconds with_cast(const ProductSize& size, std::string_view format, const Cast& cast,
                  const DeviceProfile& device) {
  const double bytes = cast.moved * static_cast<double>(size.batch * size.m * size.k);
  return tile_time(size, format, device) + kCastKernel * cast.kernels +
         Seconds{bytes / (device.memory_bandwidth.value * kProductMemoryRate)};
}

Seconds row_tiles(const ProductSize& size, std::string_view format, const DeviceProfile& device) {
  return with_cast(size, format, is_of_codes(format) ? kCastOfRows : kNoCast, device);
}

}  // namespace

void KernelTables::read_products(std::string_view format, const DeviceProfile& device,
                                 NearPoints& out) const {
  const bool sixteen_bit = format == "bf16" || format == "fp16";
  // Volta has no bf16; elsewhere both take the same time. Products of MXFP8 are those of cuBLASLt,
  // as those with one scale are.
  const bool in_fp8 = peak_of_format(format) == "fp8";
  const std::string_view wanted = format == "fp8_block"     ? "fp8_block"
                                  : in_fp8                  ? "fp8_tensor"
                                  : device.supports("bf16") ? "bf16"
                                                            : "fp16";
  const auto table = find_table("gemm_" + name_);
  if (!table || !(sixteen_bit || in_fp8)) return;
  const std::size_t dtype = table->column("dtype"), time = table->column("time_us");
  const std::size_t source = table->column("source");
  for (std::size_t row = 0; row < table->rows(); ++row) {
    // Weights of the vllm rows are uninitialised memory, which draws less power.
    if (table->text(row, dtype) != wanted || table->text(row, source).starts_with("vllm")) continue;
    const double half = name_ == "a100_sxm" ? std::sqrt(kSlowerA100Source) : 1;
    const double between = table->text(row, source).starts_with("sglang") ? 1 / half : half;
    const ProductSize size = size_of_row(*table, row);
    if (fold_of({size.m, size.n, size.k}) == left_out_) continue;
    const double measured = table->number(row, time) * 1e-6 * between;
    out.add(place_of(size), std::log(measured / row_tiles(size, format, device).value));
  }
}

Seconds KernelTables::burst(const ProductSize& size, std::string_view format, ProductPhase phase,
                            const DeviceProfile& device) const {
  auto own = products_.find(format);
  if (own == products_.end()) own = products_.try_emplace(std::string(format)).first;
  Products& products = own->second;
  if (!products.read) read_products(format, device, products.points);
  products.read = true;
  const Seconds tiles = with_cast(size, format, cast_of(format, phase, size.batch), device);
  if (products.points.at.empty() || size.batch > 1) return tiles;
  const auto [at, is_new] = products.known.try_emplace(size);
  if (is_new) at->second = std::exp(products.points.mean_near(place_of(size), kScale));
  return tiles * at->second;
}

Seconds KernelTables::product(const ProductSize& size, std::string_view format, ProductPhase phase,
                              const DeviceProfile& device) const {
  const std::lock_guard lock(mutex_);
  const double flop = 2.0 * static_cast<double>(size.batch) * static_cast<double>(size.m * size.n) *
                      static_cast<double>(size.k);
  return std::max(burst(size, format, phase, device), Seconds{flop / device.peak(format).value});
}

void KernelTables::read_settled(const DeviceProfile& device) const {
  const auto table = find_table("gemm_train_" + settled_name_);
  if (!table) return;
  constexpr std::string_view kFormat = "bf16";
  const std::size_t time = table->column("time_us");
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const ProductSize size = size_of_row(*table, row);
    if (fold_of({size.m, size.n, size.k}) == left_out_) continue;
    const double own = burst(size, kFormat, phase_of_row(*table, row), device).value;
    settled_[static_cast<std::size_t>(phase_of_row(*table, row))].points.add(
        place_of(size), std::log(table->number(row, time) * 1e-6 / own));
  }
}

double KernelTables::settled(const ProductSize& size, ProductPhase phase,
                             const DeviceProfile& device) const {
  if (settled_name_.empty()) return 1;
  const std::lock_guard lock(mutex_);
  if (!settled_read_) read_settled(device);
  settled_read_ = true;
  Settled* own = &settled_[static_cast<std::size_t>(phase)];
  if (own->points.at.empty()) own = &settled_[static_cast<std::size_t>(ProductPhase::kForward)];
  if (own->points.at.empty()) return 1;
  const auto [at, is_new] = own->known.try_emplace(size);
  if (is_new) at->second = std::exp(own->points.mean_near(place_of(size), kScale));
  return at->second;
}

std::optional<Seconds> KernelTables::attention(const AttentionSize& size,
                                               const DeviceProfile& device) const {
  const std::lock_guard lock(mutex_);
  if (!attention_read_) attention_.read(device);
  attention_read_ = true;
  if (attention_.empty()) return std::nullopt;
  return attention_.time(size, device);
}

}  // namespace zplan
