// Devices that are cores of the host: what the executor's kernels, copies, transfers and
// collectives take there, as `zplan calibrate` measures them, and what lanes of all ranks share.
// Member "cores" of a zplan.hw/1 file; without it such devices follow the rates of "device" and
// "host".
//
// Times are of one operation that nothing runs beside, with operands in or out of the caches as in
// a step (exec/measure/core_cases.h). Tables:
//   kernels      kernel, threads, three sizes. Sizes of a product: m, n, k; of attention:
//                batch x heads x sequence, sequence, head size; else bytes, 1, 1. Products and
//                attention: time / (a b c) of the 8 nearest rows (near_points.h); others straight
//                in log(time) over log(bytes)
//   copies       bytes; copies in memory
//   transfers    bytes; sends and their receives
//   collectives  name, ranks, bytes of the whole buffer
//   reads, writes  bytes; transfers from and to the drive; may be absent
// Two or more at once take longer by `products_together` and `streams_together` when all cores do
// the same: caches, clocks and the memory are common.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/near_points.h"
#include "hwprofiles/time_curve.h"
#include "planner/core/json_reader.h"
#include "planner/core/units.h"

namespace zplan {

struct ValueSource;

class CoreProfile {
 public:
  int cores = 1;        // that the threads of all ranks share
  Seconds operation{};  // of one operation beside its work: edges, operands, counts
  Seconds wake{};       // from the end of what a thread sleeps for until it runs
  double products_together = 1, streams_together = 1;

  using Sizes = std::array<double, 3>;
  // Of a kernel by its name in the kernel table; nothing where it was not measured. Of the measured
  // numbers of threads the greatest that is not above `threads` counts, else the least.
  std::optional<Seconds> kernel(std::string_view name, int threads, const Sizes& sizes) const;
  Seconds copy(Bytes bytes) const;
  Seconds transfer(Bytes bytes) const;
  struct Meeting {
    Seconds time;
    int ranks;  // of the measured group nearest in size
  };
  std::optional<Meeting> collective(std::string_view name, int ranks, Bytes bytes) const;
  std::optional<Seconds> read(Bytes bytes) const { return drive(reads_, bytes); }
  std::optional<Seconds> write(Bytes bytes) const { return drive(writes_, bytes); }

 private:
  friend CoreProfile read_cores(const JsonNode& node, std::vector<ValueSource>& sources);
  struct Kernel {
    std::vector<std::pair<Sizes, Seconds>> rows;
    std::array<double, 5> seconds_per{};  // of the terms of the sum
    NearPoints points;                    // of log(time / sum)
    TimeCurve curve;                      // of kernels with one size
    Seconds sum(const Sizes& sizes) const;
    void settle();  // after the last row
  };
  static std::optional<Seconds> drive(const TimeCurve& curve, Bytes bytes);

  std::map<std::pair<std::string, int>, Kernel, std::less<>> kernels_;  // by name and threads
  std::map<std::pair<std::string, int>, TimeCurve, std::less<>> collectives_;  // by name and ranks
  TimeCurve copies_, transfers_, reads_, writes_;
};

CoreProfile read_cores(const JsonNode& node, std::vector<ValueSource>& sources);

}  // namespace zplan
