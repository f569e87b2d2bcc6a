// What fused attention of a device takes, from tables of measured times
// (hwprofiles/kernels/attention_*.csv).
//
//   tiles     a thread block takes R queries of a head and goes over all keys that one of them
//             sees, B = 128 at a time; SMs work off whole waves of blocks. Causal attention so
//             multiplies s (s + R) / 2 pairs of a query and a key for s (s + 1) / 2 that see each
//             other. Not below the bytes at 0.7 of the memory's rate; kHeadStep elements of a head
//             at a time [derived]
//   forward   tiles x exp(weighted mean of log(measured / tiles) of the 8 nearest rows by log2 of
//             batch x heads, of the sequence, of the head size and of query heads per head of
//             keys), from rows with a causal mask or without, as it is asked for [derived]
//   no mask   A mask costs the same for each pair, whatever the size of a head. Where rows without
//             one end (heads of 96), the pair saves what it saves at a head of 64; where a device
//             has none, what it saves on RTX PRO 6000, which runs FlashAttention-2 as well
//             [derived]
//   training  forward x the same mean of log(measured in training / forward) of forward rows of
//             training on the same chip: what serves reads keys from pages, training does not
//   backward  forward x ratio of the tiles of both, 2.5 times the flop [Dao22 sec 3], x the ratio
//             that the rows of training have over that (attention_train_*.csv, see trained_as)
// Left out: windows and anything else that is added to scores.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "hwprofiles/near_points.h"
#include "planner/core/units.h"

namespace zplan {

struct DeviceProfile;

// Fused attention of so many sequences and query heads.
struct AttentionSize {
  std::int64_t batch = 0, heads = 0, sequence = 0, head_size = 0;
  std::int64_t groups = 0;  // heads of keys and values; 0: as many as of queries
  std::int64_t keys = 0;    // of a sequence; 0: as many as queries
  bool sees_all = false;    // no causal mask
  bool backward = false;
  bool cached = false;  // keys and values are also written to a cache, as inference does

  std::int64_t key_heads() const { return groups == 0 ? heads : groups; }
  std::int64_t key_count() const { return keys == 0 ? sequence : keys; }
  // Of a query and a key that it sees, of one head of one sequence.
  double pairs() const;
  // Multiply-adds count 2; backward has five products for two.
  double flop() const;
  int fold() const { return fold_of({batch, heads, sequence, head_size}); }
  friend auto operator<=>(const AttentionSize&, const AttentionSize&) = default;
};

// 2: FlashAttention-2 [Dao23]; 3: FlashAttention-3 on Hopper [Shah24]; 4: newer ones on Blackwell
// of data centres. `tables`: name of the device's tables.
int attention_generation(std::string_view tables);

// By tiles alone, of the kernels of a generation.
Seconds attention_tile_time(const AttentionSize& size, int generation, const DeviceProfile& device);

// The tables of one device.
class AttentionTables {
 public:
  // `settled`: the name of the tables of training of the very device; empty: none.
  AttentionTables(std::string name, std::string settled, int left_out);
  // Before anything is asked. Rows are shares of what this device does.
  void read(const DeviceProfile& device);
  bool empty() const { return masked_.at.empty(); }
  Seconds time(const AttentionSize& size, const DeviceProfile& device);

 private:
  // Over tiles.
  double factor(const AttentionSize& size) const;
  double forward(const AttentionSize& size) const;
  double unmasked(const AttentionSize& size) const;
  // Rows of training with a mask as the size has it, or those that stand in for them.
  const NearPoints& trained(const AttentionSize& size) const;
  void read_forward(const DeviceProfile& device);
  void read_training(const DeviceProfile& device);

  std::string name_, settled_;
  int left_out_, generation_;
  NearPoints masked_, seeing_all_;           // of log(measured / tiles)
  NearPoints backward_;                      // of log(backward / forward) over the same of tiles
  NearPoints trained_masked_, trained_all_;  // of log(measured in training / forward)
  std::map<AttentionSize, double> known_;    // factors
};

}  // namespace zplan
