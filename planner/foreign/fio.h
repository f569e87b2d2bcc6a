// Output of fio (github.com/axboe/fio) in the forms json and json+: rates, latencies and how much
// was in flight, as stat.c there writes them (fio 2 and 3; fio 2 has rates in KiB/s and times in
// us).
//
// Jobs of one group (groupid) ran at the same time and count together; `stonewall` begins another.
// A file is refused when a job failed or went through the page cache (direct is not 1), and when
// bytes, requests, times and rates of a job contradict each other.
// Left out: trims, syncs; which drive of several a group used where its files are not devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/core/units.h"

namespace zplan {

// One direction of a group. In flight: requests per second x latency of one [Little61].
struct FioRate {
  double bytes_per_second = 0, requests_per_second = 0;
  double in_flight = 0;  // on average; 0: latencies were not recorded

  Seconds latency() const { return {in_flight / requests_per_second}; }
  // Of one request; drives count in sectors.
  Bytes block() const;
};

struct FioGroup {
  std::string jobs;      // their names
  std::string place;     // file:line of the first
  int drives = 1;        // that it used
  bool counted = false;  // else the file does not say how many
  FioRate read, write;

  double in_flight() const { return read.in_flight + write.in_flight; }
};

struct FioRun {
  std::string software;  // "fio-3.33"
  std::string date;      // "2026-07-09"
  std::vector<FioGroup> groups;
};

FioRun read_fio(const JsonNode& root);

}  // namespace zplan
