// How far predicted times of single kernels are from measured ones, for each device with a table:
// matrix products in bursts and in training, fused attention with and without a mask, forward and
// backward, above 2^33 flop. Each table is asked twice: for its own rows, and for the rows of one
// shape in five that were left out of it, each fold in turn (near_points.h), which is how well it
// knows shapes that nobody measured.
//
// The goal is a median error (with its sign) of at most 3 %, and 15 % at the 90th percentile. Every
// table meets it for its own rows. Left out, it holds for products in bursts and for attention
// forward on most devices; where it does not, kFarther says how far off these are, and why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hwprofiles/build_cluster.h"
#include "hwprofiles/csv_table.h"
#include "hwprofiles/kernel_tables.h"

namespace zplan {
namespace {

constexpr double kLeastFlop = 8589934592.0;  // 2^33
constexpr double kMedianGoal = 0.03, kGoal = 0.15;

// Of rows that are left out: heads that do not meet the goal, and the 90th percentile they stay
// below. Products of B200 in training take one of two clocks, 1.4 or 1.1 PFLOP/s for neighbours in
// size, as the device was cooler or warmer: no shape tells which. Attention in training has so few
// shapes that one left out is often the only one of its kind. Attention of Blackwell with heads of
// 256 and few of them, and L40S at its power limit, differ between neighbours by as much.
struct Farther {
  std::string_view tables, head;
  double p90, median = kMedianGoal;
};
constexpr Farther kFarther[] = {
    {"b200_sxm (training)", "product", 0.36},
    {"b200_sxm (training)", "attention", 0.40, 0.12},
    {"a100_pcie (training)", "attention", 0.20, 0.05},
    {"h100_sxm", "attention causal forward training", 0.30, 0.05},
    {"h100_sxm", "attention full forward", 0.18},
    {"h200_sxm", "attention full forward", 0.17},
    {"b300_sxm", "attention causal forward", 0.21},
    {"gb200", "attention causal forward", 0.27},
    {"gb300", "attention causal forward", 0.20},
    {"rtx_pro_6000_server", "attention causal forward", 0.18},
    {"l40s", "product", 0.19},
};

Farther limit_of(std::string_view tables, std::string_view head) {
  for (const Farther& row : kFarther)
    if (row.tables == tables && head.starts_with(row.head)) return row;
  return {tables, head, kGoal};
}

struct Errors {
  std::vector<double> logs;  // of predicted / measured

  double median() const { return std::exp(at(sorted(false), 0.5)) - 1; }
  double typical() const { return std::exp(at(sorted(true), 0.5)) - 1; }
  double p90() const { return std::exp(at(sorted(true), 0.9)) - 1; }

 private:
  std::vector<double> sorted(bool absolute) const {
    std::vector<double> all = logs;
    if (absolute)
      for (double& log : all) log = std::abs(log);
    std::sort(all.begin(), all.end());
    return all;
  }
  static double at(const std::vector<double>& all, double share) {
    return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
  }
};

struct Pair {
  Errors known, left_out;
};

struct Device {
  std::string tables, settled;
  DeviceProfile profile;
};

std::vector<Device> devices() {
  const HardwareCatalogue catalogue = load_hardware_catalogue();
  const auto built = [&](const char* id) {
    return build_cluster(catalogue, node_catalogue(), {.device = id}).cluster.node.device;
  };
  return {{"v100_deepbench", "", built("v100_sxm3_32gb")},
          {"a100_sxm", "", built("a100_sxm4_80gb")},
          {"a100_sxm", "a100_pcie", built("a100_pcie_80gb")},
          {"h100_sxm", "", built("h100_sxm5_80gb")},
          {"h200_sxm", "", built("h200_sxm_141gb")},
          {"b200_sxm", "b200_sxm", built("b200_sxm_180gb")},
          {"b300_sxm", "", built("b300_sxm_288gb")},
          {"gb200", "", built("gb200_186gb")},
          {"gb300", "", built("gb300_288gb")},
          {"l40s", "", built("l40s")},
          {"rtx_pro_6000_server", "", built("rtx_pro_6000")}};
}

std::int64_t whole(const CsvTable& table, std::size_t row, std::string_view column) {
  return static_cast<std::int64_t>(table.number(row, table.column(column)));
}

// One row: under which head it counts, its fold, its flop, and what tables say of it.
struct Row {
  std::string head;
  int fold = 0;
  double flop = 0, seconds = 0;
  std::function<double(const KernelTables&)> predicted;
};

class Comparison {
 public:
  explicit Comparison(const Device& device)
      : device_(device), whole_(device.tables, device.settled) {
    for (int fold = 0; fold < kFolds; ++fold)
      cut_.push_back(std::make_unique<KernelTables>(device.tables, device.settled, fold));
  }
  void add(const Row& row) {
    if (row.flop <= kLeastFlop) return;
    Pair& pair = pairs_[row.head];
    const auto error = [&](const KernelTables& tables) {
      return std::log(row.predicted(tables) / row.seconds);
    };
    pair.known.logs.push_back(error(whole_));
    pair.left_out.logs.push_back(error(*cut_[static_cast<std::size_t>(row.fold)]));
  }
  const DeviceProfile& profile() const { return device_.profile; }
  const std::map<std::string, Pair>& pairs() const { return pairs_; }

 private:
  const Device& device_;
  KernelTables whole_;
  std::vector<std::unique_ptr<KernelTables>> cut_;
  std::map<std::string, Pair> pairs_;
};

void add_bursts(const Device& device, Comparison& to) {
  const auto table = find_table("gemm_" + device.tables);
  if (!table || !device.settled.empty()) return;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const std::string_view dtype = table->text(row, table->column("dtype"));
    const std::string_view format = dtype == "fp8_tensor" ? "fp8" : dtype;
    // Rows that are read: those of vllm multiply what memory happened to hold.
    if (table->text(row, table->column("source")).starts_with("vllm")) continue;
    if (format != "fp8" && format != (device.profile.supports("bf16") ? "bf16" : "fp16")) continue;
    const ProductSize size{whole(*table, row, "m"), whole(*table, row, "n"),
                           whole(*table, row, "k")};
    to.add({.head = fmt::format("product {} burst", format),
            .fold = fold_of({size.m, size.n, size.k}),
            .flop = 2.0 * static_cast<double>(size.m * size.n) * static_cast<double>(size.k),
            .seconds = table->number(row, table->column("time_us")) * 1e-6,
            .predicted = [&to, size, format = std::string(format)](const KernelTables& tables) {
              return tables.product(size, format, ProductPhase::kForward, to.profile()).value;
            }});
  }
}

void add_training(const Device& device, Comparison& to) {
  const auto table = find_table("gemm_train_" + device.settled);
  if (!table) return;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const std::string_view phase = table->text(row, table->column("phase"));
    const bool is_short = table->text(row, table->column("out_dtype")) == "bf16";
    const ProductPhase own = phase == "fwd"     ? ProductPhase::kForward
                             : phase == "dgrad" ? ProductPhase::kInputGradient
                             : is_short         ? ProductPhase::kShortWeightGradient
                                                : ProductPhase::kWeightGradient;
    const ProductSize size{whole(*table, row, "m"), whole(*table, row, "n"),
                           whole(*table, row, "k")};
    to.add({.head = fmt::format("product {}", phase),
            .fold = fold_of({size.m, size.n, size.k}),
            .flop = 2.0 * static_cast<double>(size.m * size.n) * static_cast<double>(size.k),
            .seconds = table->number(row, table->column("time_us")) * 1e-6,
            .predicted = [&to, size, own](const KernelTables& tables) {
              const DeviceProfile& device = to.profile();
              return tables.product(size, "bf16", ProductPhase::kForward, device).value *
                     tables.settled(size, own, device) * device.sustained;
            }});
  }
}

void add_attention(const std::string& file, const char* head_size, Comparison& to) {
  const auto table = find_table(file);
  if (!table) return;
  const bool training = file.find("train") != std::string::npos;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const std::string_view source = table->text(row, table->column("source"));
    // One software per device is read, the newest.
    if (!training && source != "vllm-0.24.0" && source != "sglang-0.5.10") continue;
    const bool masked = whole(*table, row, "causal") != 0;
    const bool backward = training && table->text(row, table->column("phase")) == "bwd";
    std::int64_t width = whole(*table, row, head_size);
    if (training) width = (width + whole(*table, row, "v_head_dim")) / 2;
    const AttentionSize size{.batch = whole(*table, row, "batch"),
                             .heads = whole(*table, row, "heads"),
                             .sequence = whole(*table, row, "seq"),
                             .head_size = width,
                             .groups = whole(*table, row, "kv_heads"),
                             .sees_all = !masked,
                             .backward = backward,
                             .cached = masked && !training};
    to.add({.head = fmt::format("attention {} {}{}", masked ? "causal" : "full",
                                backward ? "backward" : "forward", training ? " training" : ""),
            .fold = size.fold(),
            .flop = size.flop(),
            .seconds = table->number(row, table->column("time_us")) * 1e-6,
            .predicted = [&to, size](const KernelTables& tables) {
              return tables.attention(size, to.profile())->value;
            }});
  }
}

void compare(const Device& device, Comparison& comparison) {
  add_bursts(device, comparison);
  add_training(device, comparison);
  if (device.settled.empty()) add_attention("attention_" + device.tables, "head_dim", comparison);
  const std::string training = device.settled.empty() ? device.tables : device.settled;
  add_attention("attention_train_" + training, "qk_head_dim", comparison);
}

TEST(KernelTimes, AreNearTheMeasuredOnes) {
  for (const Device& device : devices()) {
    Comparison comparison(device);
    compare(device, comparison);
    for (const auto& [head, pair] : comparison.pairs()) {
      const std::string name =
          device.settled.empty() ? device.tables : device.settled + " (training)";
      fmt::print(
          "{:24} {:34} {:4} rows: median {:+5.1f} %, |median| {:4.1f} %, p90 {:5.1f} %; left out "
          "{:+5.1f} %, {:4.1f} %, {:5.1f} %\n",
          name, head, pair.known.logs.size(), 100 * pair.known.median(), 100 * pair.known.typical(),
          100 * pair.known.p90(), 100 * pair.left_out.median(), 100 * pair.left_out.typical(),
          100 * pair.left_out.p90());
      EXPECT_LT(std::abs(pair.known.median()), kMedianGoal) << name << " " << head;
      EXPECT_LT(pair.known.p90(), kGoal) << name << " " << head;
      const Farther limit = limit_of(name, head);
      EXPECT_LT(std::abs(pair.left_out.median()), limit.median) << name << " " << head;
      EXPECT_LT(pair.left_out.p90(), limit.p90) << name << " " << head;
    }
  }
}

}  // namespace
}  // namespace zplan
