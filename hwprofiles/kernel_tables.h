// What single kernels of a device take, alone and without their launch: from tables of measured
// times (hwprofiles/kernels/*.csv), or from how a product is cut into tiles where there is none.
//
// Matrix product y[m,n] = x[m,k] w[k,n], `batch` times:
//   tiles     the fastest of six tile sizes, where every SM works off whole waves of tiles:
//             ceil(batch ceil(m/a) ceil(n/b) / SMs) x SMs x 2 a b k / (efficiency x peak), not
//             below the bytes at 0.8 of the memory's rate [derived]
//   table     tiles x exp(weighted mean of log(measured / tiles) of the 8 nearest rows by
//             log2 of m, n and k, weights 1 / (distance^2 + 0.05)); never above the peak [derived]
// Fused attention, forward: causal flop / rate of the 8 nearest rows by log2 of batch x heads x
// sequence, of the sequence and of the head size [derived].
// Left out: layouts of the operands, products of one row.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/near_points.h"
#include "planner/core/units.h"

namespace zplan {

struct DeviceProfile;

struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  friend auto operator<=>(const ProductSize&, const ProductSize&) = default;
};

struct AttentionSize {
  std::int64_t batch = 0, heads = 0, sequence = 0, head_size = 0;
  friend auto operator<=>(const AttentionSize&, const AttentionSize&) = default;
};

// By tiles alone. `format`: that of the product, a key of DeviceProfile::peaks.
Seconds tile_time(const ProductSize& size, std::string_view format, const DeviceProfile& device);

// The tables of one device; safe to share between threads.
class KernelTables {
 public:
  // `name`: "a100_sxm", the end of the names of its files. Tables that are not there are empty.
  explicit KernelTables(std::string name);
  ~KernelTables();

  const std::string& name() const { return name_; }
  // Of the fused attention in the table: FlashAttention-3 on Hopper [Shah24], newer ones on
  // Blackwell, else FlashAttention-2 [Dao23].
  int attention_generation() const;
  // By the table, or by tiles where it has no rows of the format.
  Seconds product(const ProductSize& size, std::string_view format,
                  const DeviceProfile& device) const;
  // Share of the peak that fused attention reaches over the causal half; 0: no table.
  double attention_rate(const AttentionSize& size, const DeviceProfile& device) const;

 private:
  struct Products {
    bool read = false;
    NearPoints points;  // of log(measured / tiles)
    std::map<ProductSize, double> known;
  };
  void read_products(std::string_view format, const DeviceProfile& device, NearPoints& out) const;
  void read_attention(const DeviceProfile& device) const;

  std::string name_;
  mutable std::mutex mutex_;                                       // of all below
  mutable std::map<std::string, Products, std::less<>> products_;  // by format
  mutable bool attention_read_ = false;
  mutable NearPoints attention_;  // of log(share of the peak)
  mutable std::map<AttentionSize, double> attention_known_;
};

}  // namespace zplan
