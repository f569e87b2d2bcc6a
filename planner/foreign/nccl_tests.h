// Output of nccl-tests (github.com/NVIDIA/nccl-tests): the table of all_reduce_perf and its kin,
// and the file that their option -J writes. Forms and formulas are those of src/common.cu,
// src/util.cu and doc/PERFORMANCE.md there, from v2.9.0 to 2.19.6.
//
//   # nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 ..       a run begins
//   #  Rank  0 Group  0 Pid   4349 on HOST device  0 [0x07] NVIDIA A100-SXM4-80GB     one per rank
//   #       size         count      type   redop    root     time   algbw   busbw #wrong     time
//   ..
//        1048576        262144     float     sum      -1    58.14   18.04   31.56      0    57.87
//        ..
//   # Out of bounds values : 0 OK
//   # Avg bus bandwidth    : 70.742                            a run ends
//
// The first four figures of a row are out of place and count; in place may be absent. Columns
// redop and root are where the version and the test have them. Lines of other programs among these
// are passed over, labels of mpirun --tag-output and srun --label before them too. The test is
// named by "# Collective test starting: all_reduce_perf", by a command line before the table, or by
// the name of the file.
// A file is refused when it is cut off, when results were wrong, and when size, count, time, algbw
// and busbw of a row contradict each other or the number of ranks.
// Left out of a run: rows that moved nothing; sums in other formats than half, bfloat16 and float,
// since 8-bit ones cannot use the switches; reductions other than sums.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/collective_profile.h"
#include "planner/core/json_reader.h"
#include "planner/core/units.h"

namespace zplan {

// One table.
struct NcclRun {
  struct Time {
    Bytes size;  // of the whole buffer; of an all-to-all or send and receive, what one rank sends
    Seconds time;
  };
  std::string program;                     // "all_reduce_perf"
  std::optional<MeasuredCollective> kind;  // none: sendrecv_perf, each rank to the next
  int ranks = 0, nodes = 0;
  std::string device;        // "NVIDIA H100 80GB HBM3"
  std::string software;      // "nccl-tests 2.19.6, NCCL 2.29.2", as far as the file says it
  std::string date;          // "2026-07-09"; empty: not said
  std::string place;         // file:line where it begins
  std::vector<Time> times;   // in the order of the file
  std::size_t left_out = 0;  // rows
};

// `name` stands for the file in messages. Throws Error, one line with the place.
std::vector<NcclRun> parse_nccl_text(std::string_view text, const std::string& name);
NcclRun read_nccl_json(const JsonNode& root, const std::string& name);

}  // namespace zplan
