// What the text and the JSON of nccl-tests have in common: a table as written, and the checks that
// make an NcclRun of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/foreign/nccl_tests.h"

namespace zplan {

// A number and how far rounding may have taken it.
struct Printed {
  double value = 0, half_unit = 0;
};
// "58.14", "2.1e+07"; nothing: not such a number.
std::optional<Printed> parse_printed(std::string_view text);

struct NcclRank {
  int rank = 0, group = 0;
  std::string host, device;
};

struct NcclRow {
  std::string place;  // file:line
  std::int64_t size = 0, count = 0;
  std::string type, reduction;  // "float", "sum"; the latter may be empty
  Printed time, algbw, busbw;   // us, GB/s
};

struct NcclTable {
  std::string name, place;  // of the file; file:line where it begins
  std::string program;      // empty: by the name of the file
  std::string software, date;
  int ranks_each = 1;           // of one entry of `ranks`
  int ranks_per_process = 1;    // they come in such numbers
  std::vector<NcclRank> ranks;  // ascending
  std::vector<NcclRow> rows;
};

// The last of the tests' names in a text such as a command line; empty: none.
std::string find_nccl_program(std::string_view text);

// "2.29.2" of 22902, "2.8.4" of 2804.
std::string nccl_version(std::int64_t code);

void check_next_rank(const std::string& place, int expected, int got);
NcclRun checked_run(const NcclTable& table);

[[noreturn]] void fail_at(const std::string& place, const std::string& message);

}  // namespace zplan
