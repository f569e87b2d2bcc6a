// What runs of fio say of the drives of a node (NvmeProfile).
//
//   drive_read,   a group that only reads or only writes, in blocks of kLeastBlock or more with
//   drive_write   several in flight: its rate over the drives that it used. What a program reached
//                 needs no efficiency any more, which becomes 1; where one direction was not
//                 measured, its rate takes the former efficiency in, so that its use stays the same
//   block,        of the last such group: the size of its requests, and how many it had in flight
//   queue_depth   on each drive
//   read_beside_  a group that does both: r and w of the rates R and W that the drives have alone.
//   write         The share s of R at which they read while they write at W is on the line through
//                 (r, w) that ends at (R, 0):  s = 1 - (1 - r/R) / (w/W), at least 0 [derived]
//   latency       a group that reads with one request in flight: its latency without the time that
//                 the block takes at the drive's rate
//
// Later groups win. Other groups are left out, and told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/foreign/fio.h"

namespace zplan {

template <typename Value>
struct MeasuredValue {
  Value value{};
  std::string ref;
};

struct DriveValues {
  std::optional<MeasuredValue<BytesPerSecond>> read, write;  // per drive
  std::optional<MeasuredValue<double>> read_beside_write;
  std::optional<MeasuredValue<int>> queue_depth;
  std::optional<MeasuredValue<Bytes>> block;
  std::optional<MeasuredValue<Seconds>> latency;
  std::vector<std::string> notes;
};

struct NamedFioRun {
  std::string file;
  FioRun run;
};

// Throws Error where `drives` are fewer than a group used.
DriveValues drive_values(const std::vector<NamedFioRun>& runs, const NvmeProfile& drives);

}  // namespace zplan
