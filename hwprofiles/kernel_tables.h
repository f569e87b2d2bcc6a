// What single kernels of a device take, alone and without their launch: from tables of measured
// times (hwprofiles/kernels/*.csv), or from how a product is cut into tiles where there is none.
//
// Matrix product y[m,n] = x[m,k] w[k,n], `batch` times:
//   tiles     the fastest of six tile sizes a x b and of up to 8 splits of k: tiles / SMs x SMs x
//             2 a b k / (efficiency x peak), of the SMs that a last wave leaves idle half stay so;
//             then (products^4 + bytes^4)^(1/4) with the bytes at 0.8 of the memory's rate
//             [derived]
//   table     tiles x exp(weighted mean of log(measured / tiles) of the 8 nearest rows by
//             log2 of m, n and k, weights 1 / (distance^2 + 0.05)); never above the peak [derived]
//   settled   table x exp(the same mean of log(measured in training / table) of rows of the phase),
//             where the device has rows of training (gemm_train_*.csv): clocks under power limits,
//             layouts of the operands and what adding to gradients moves
// Fused attention: attention_tables.h.
// Left out: products of one row.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "hwprofiles/attention_tables.h"
#include "hwprofiles/near_points.h"
#include "planner/core/product_phase.h"
#include "planner/core/units.h"

namespace zplan {

struct DeviceProfile;

struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  friend auto operator<=>(const ProductSize&, const ProductSize&) = default;
};

// By tiles alone. `format`: that of the product, a key of DeviceProfile::peaks.
Seconds tile_time(const ProductSize& size, std::string_view format, const DeviceProfile& device);

// The tables of one device; safe to share between threads.
class KernelTables {
 public:
  // `name`: "a100_sxm", the end of the names of its files. `settled`: that of its files of
  // training. Tables that are not there are empty. Rows of the shapes of `left_out`, a fold, are
  // not read.
  explicit KernelTables(std::string name, std::string settled = "", int left_out = kNoFold);
  ~KernelTables();

  const std::string& name() const { return name_; }
  int attention_generation() const { return zplan::attention_generation(name_); }
  // Returns the time in a short burst: by the table, or by tiles where it lacks rows of the format.
  // The time in 8 or 4 bits includes what casts that product; it is never below that of the peak.
  Seconds product(const ProductSize& size, std::string_view format, ProductPhase phase,
                  const DeviceProfile& device) const;
  // Of what training takes over a burst; 1: no rows of training.
  double settled(const ProductSize& size, ProductPhase phase, const DeviceProfile& device) const;
  // Fused attention; nothing: no table.
  std::optional<Seconds> attention(const AttentionSize& size, const DeviceProfile& device) const;

 private:
  struct Products {
    bool read = false;
    NearPoints points;  // of log(measured / tiles)
    std::map<ProductSize, double> known;
  };
  struct Settled {
    NearPoints points;  // of log(measured / table)
    std::map<ProductSize, double> known;
  };
  Seconds burst(const ProductSize& size, std::string_view format, ProductPhase phase,
                const DeviceProfile& device) const;
  void read_products(std::string_view format, const DeviceProfile& device, NearPoints& out) const;
  void read_settled(const DeviceProfile& device) const;

  std::string name_, settled_name_;
  int left_out_;
  mutable std::mutex mutex_;                                       // of all below
  mutable std::map<std::string, Products, std::less<>> products_;  // by format
  mutable bool settled_read_ = false;
  mutable std::array<Settled, kProductPhases> settled_;
  mutable bool attention_read_ = false;
  mutable AttentionTables attention_;
};

}  // namespace zplan
