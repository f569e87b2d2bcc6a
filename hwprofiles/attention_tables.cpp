#include "hwprofiles/attention_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hwprofiles/csv_table.h"
#include "hwprofiles/hw_profile.h"

namespace zplan {
namespace {

constexpr std::int64_t kKeysOfTile = 128;  // [Dao23] [Shah24 app. B]
// [derived] in keys, what a thread block does before its first tile and after its last one.
constexpr std::int64_t kBlockStart = 64;
// [derived] shares of the peak and of the memory's bandwidth, and what a call takes besides; the
// rows correct all three.
constexpr double kTileRate = 0.6, kMemoryRate = 0.7;
constexpr Seconds kCall{10e-6};
// [Dao22 sec 3] backward computes the scores again and has two products for each of forward's.
constexpr double kBackwardProducts = 2.5;
// Rows without a mask are of smaller heads. They are of encoders, which read no pages.
constexpr std::int64_t kWidestUnmasked = 96;
// Of squared distances. How many heads there are in all matters less than how long and wide each
// is; kernels of other head sizes are other kernels. [derived]
constexpr NearPoints::Place kTileScale{0.3, 1, 20, 0.3};

// [Dao23] 128 queries; [Shah24 app. B] 192 where a head is small and nothing is masked, otherwise
// 128; two tiles of 128 per thread block on Blackwell, [derived] from the steps of its rows.
std::int64_t queries_of_block(const AttentionSize& size, int generation) {
  constexpr std::int64_t kUsual = 128, kSmallHeads = 192, kPair = 256, kSmall = 96;
  if (size.backward || generation == 2) return kUsual;
  if (generation == 4) return kPair;
  return size.sees_all && size.head_size <= kSmall ? kSmallHeads : kUsual;
}

// [derived] from heads of 72 and 80: FlashAttention-2 has kernels for each 32 elements, the others
// take 16, a step of their tensor cores.
std::int64_t padded(std::int64_t head_size, int generation) {
  return round_up(head_size, generation == 2 ? 32 : 16);
}

double real(std::int64_t value) { return static_cast<double>(value); }

NearPoints::Place place_of(const AttentionSize& s, std::int64_t head_size) {
  return log_place(real(s.batch * s.heads), std::sqrt(real(s.sequence) * real(s.key_count())),
                   real(head_size), real(s.key_heads()) / real(s.heads));
}

double key_elements(const AttentionSize& s) {
  return real(s.batch * s.key_heads()) * real(s.key_count() * s.head_size);
}

double moved_bytes(const AttentionSize& s) {
  constexpr double kElement = 2;
  const double queries = real(s.batch * s.heads) * real(s.sequence * s.head_size);
  return kElement * (2 * queries + 2 * key_elements(s));
}

// The tables of training whose backward pass stands in: FlashAttention-2 everywhere is the code of
// A100; of newer kernels there is one device of each generation.
std::string trained_as(const std::string& settled, int generation) {
  if (!settled.empty()) return settled;
  return generation == 2 ? "a100_pcie" : generation == 3 ? "h100_sxm" : "b200_sxm";
}

// Whether a device is the chip of these tables of training, at whatever power.
bool is_chip_of(std::string_view device, std::string_view training) {
  const auto family = [](std::string_view name) {
    return name.starts_with("h200") ? "h100" : name.substr(0, name.find('_'));
  };
  return family(device) == family(training);
}

// The newest kernels among the sources of a device. Others differ by more than rows of one do.
bool counts(std::string_view device, std::string_view source) {
  if (device == "a100_sxm") return source.starts_with("sglang");
  return source == "vllm-0.24.0";
}

std::int64_t whole(const CsvTable& table, std::size_t row, std::string_view column) {
  return static_cast<std::int64_t>(table.number(row, table.column(column)));
}

}  // namespace

double AttentionSize::pairs() const {
  return sees_all ? real(sequence) * real(key_count()) : real(sequence) * real(sequence + 1) / 2;
}

double AttentionSize::flop() const {
  return 4.0 * real(batch * heads * head_size) * pairs() * (backward ? kBackwardProducts : 1);
}

int attention_generation(std::string_view tables) {
  if (tables.starts_with("h100") || tables.starts_with("h200")) return 3;
  return tables.starts_with("b200") || tables.starts_with("b300") || tables.starts_with("gb") ? 4
                                                                                              : 2;
}

Seconds attention_tile_time(const AttentionSize& s, int generation, const DeviceProfile& device) {
  const double sms = std::max(1, device.sm_count);
  const std::int64_t rows = queries_of_block(s, generation);
  const double blocks = real(ceil_div(s.sequence, rows));
  const double tiles = real(ceil_div(s.key_count(), kKeysOfTile));
  const double work = 4.0 * real(rows * padded(s.head_size, generation));  // flop of a key
  const double longest = (tiles * kKeysOfTile + kBlockStart) * work;
  const double heads = real(s.batch * s.heads);
  double compute = std::ceil(heads * blocks / sms) * longest;
  if (!s.sees_all) {
    // The longest blocks start first, so that all SMs end together [Shah24 sec 3].
    const double keys = real(rows) * blocks * (blocks + 1) / 2 + blocks * kBlockStart;
    compute = std::max(heads * keys * work / sms, longest);
  }
  if (s.backward) compute *= kBackwardProducts;
  const double rate = device.peak("bf16").value * kTileRate / sms;
  const double memory_rate = device.memory_bandwidth.value * kMemoryRate;
  const double stream = moved_bytes(s) * (s.backward ? 2 : 1) / memory_rate;
  const double cache = s.cached ? 8 * key_elements(s) / memory_rate : 0;  // read, then written
  return Seconds{std::max(compute / rate, stream) + cache} + kCall;
}

AttentionTables::AttentionTables(std::string name, std::string settled, int left_out)
    : name_(std::move(name)),
      settled_(std::move(settled)),
      left_out_(left_out),
      generation_(attention_generation(name_)) {}

void AttentionTables::read(const DeviceProfile& device) {
  read_forward(device);
  if (!empty()) read_training(device);
}

void AttentionTables::read_forward(const DeviceProfile& device) {
  const auto table = find_table("attention_" + name_);
  if (!table) return;
  const std::size_t time = table->column("time_us"), source = table->column("source");
  for (std::size_t row = 0; row < table->rows(); ++row) {
    if (!counts(name_, table->text(row, source))) continue;
    const bool masked = whole(*table, row, "causal") != 0;
    const AttentionSize size{.batch = whole(*table, row, "batch"),
                             .heads = whole(*table, row, "heads"),
                             .sequence = whole(*table, row, "seq"),
                             .head_size = whole(*table, row, "head_dim"),
                             .groups = whole(*table, row, "kv_heads"),
                             .sees_all = !masked,
                             .cached = masked};
    if (size.fold() == left_out_) continue;
    const double measured = table->number(row, time) * 1e-6;
    (masked ? masked_ : seeing_all_)
        .add(place_of(size, size.head_size),
             std::log(measured / attention_tile_time(size, generation_, device).value));
  }
}

void AttentionTables::read_training(const DeviceProfile& device) {
  const std::string training = trained_as(settled_, generation_);
  const auto table = find_table("attention_train_" + training);
  if (!table) return;
  const bool same_chip = is_chip_of(name_, training);
  const std::size_t time = table->column("time_us"), phase = table->column("phase");
  std::map<AttentionSize, double> forward_times;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    if (table->text(row, table->column("qkv_contiguous")) != "1") continue;
    const std::int64_t sizes = whole(*table, row, "qk_head_dim") + whole(*table, row, "v_head_dim");
    AttentionSize size{.batch = whole(*table, row, "batch"),
                       .heads = whole(*table, row, "heads"),
                       .sequence = whole(*table, row, "seq"),
                       .head_size = sizes / 2,
                       .groups = whole(*table, row, "kv_heads"),
                       .sees_all = whole(*table, row, "causal") == 0};
    if (size.fold() == left_out_) continue;
    const double measured = table->number(row, time) * 1e-6;
    if (table->text(row, phase) == "fwd") {
      forward_times[size] = measured;
      if (same_chip)
        (size.sees_all ? trained_all_ : trained_masked_)
            .add(place_of(size, size.head_size),
                 std::log(measured / forward(size) /
                          attention_tile_time(size, generation_, device).value));
      continue;
    }
    const auto found = forward_times.find(size);  // rows of forward come first
    if (found == forward_times.end()) continue;
    const Seconds before = attention_tile_time(size, generation_, device);
    size.backward = true;
    const Seconds after = attention_tile_time(size, generation_, device);
    backward_.add(place_of(size, size.head_size),
                  std::log(measured / found->second * before.value / after.value));
  }
}

double AttentionTables::unmasked(const AttentionSize& size) const {
  constexpr std::int64_t kCompared = 64;
  // [derived] share of the time of a pair at a head of 128 that a mask takes: rows of RTX PRO 6000
  // of 16,384 tokens, 276 and 369 TFLOP/s with and without one at 64, 298 with one at 128.
  constexpr double kMaskAt128 = 0.136, kLeast = 0.5;
  if (!seeing_all_.at.empty() && size.head_size <= kWidestUnmasked)
    return std::exp(seeing_all_.mean_near(place_of(size, size.head_size), kTileScale));
  const auto masked_at = [&](std::int64_t head_size) {
    return std::exp(masked_.mean_near(place_of(size, head_size), kTileScale));
  };
  const double masked = masked_at(size.head_size);
  double saved = masked * kMaskAt128 * 128 / real(size.head_size);
  if (!seeing_all_.at.empty()) {
    const double all = std::exp(seeing_all_.mean_near(place_of(size, kCompared), kTileScale));
    saved = (masked_at(kCompared) - all) * kCompared / real(size.head_size);
  }
  return std::max(masked - saved, kLeast * masked);
}

double AttentionTables::forward(const AttentionSize& size) const {
  if (size.sees_all) return unmasked(size);
  return std::exp(masked_.mean_near(place_of(size, size.head_size), kTileScale));
}

const NearPoints& AttentionTables::trained(const AttentionSize& size) const {
  static const NearPoints kNone;
  if (!size.sees_all) return trained_masked_;
  if (seeing_all_.at.empty()) return trained_masked_;  // they are what forward is made of
  return size.head_size <= kWidestUnmasked ? kNone : trained_all_;
}

double AttentionTables::factor(const AttentionSize& size) const {
  const NearPoints::Place place = place_of(size, size.head_size);
  double log = 0;
  const NearPoints& points = trained(size);
  if (!size.cached && !points.at.empty()) log += points.mean_near(place, kTileScale);
  if (size.backward && !backward_.at.empty()) log += backward_.mean_near(place, kTileScale);
  return forward(size) * std::exp(log);
}

Seconds AttentionTables::time(const AttentionSize& size, const DeviceProfile& device) {
  const auto [at, is_new] = known_.try_emplace(size);
  if (is_new) at->second = factor(size);
  return attention_tile_time(size, generation_, device) * at->second;
}

}  // namespace zplan
