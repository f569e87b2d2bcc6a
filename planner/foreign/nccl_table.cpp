#include "planner/foreign/nccl_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

enum class Counts { kWhole, kPart };  // whether `count` is of the buffer or of a rank's part
enum class Bus { kOnce, kPart, kTwiceParts };  // busbw over algbw: 1, (n - 1)/n, 2 (n - 1)/n

struct Test {
  std::string_view stem;  // of its program
  std::optional<MeasuredCollective> kind;
  bool reduces;
  Counts counts;
  Bus bus;
};
// getCollByteCount() and getBw() of each test. Stems that hold another come first.
constexpr Test kTests[] = {
    {"all_reduce", MeasuredCollective::kAllReduce, true, Counts::kWhole, Bus::kTwiceParts},
    {"reduce_scatter", MeasuredCollective::kReduceScatter, true, Counts::kPart, Bus::kPart},
    {"all_gather", MeasuredCollective::kAllGather, false, Counts::kPart, Bus::kPart},
    {"alltoall", MeasuredCollective::kAllToAll, false, Counts::kPart, Bus::kPart},
    {"sendrecv", std::nullopt, false, Counts::kWhole, Bus::kOnce},
    {"broadcast", MeasuredCollective::kBroadcast, false, Counts::kWhole, Bus::kOnce},
    {"reduce", MeasuredCollective::kReduce, true, Counts::kWhole, Bus::kOnce},
};

struct Type {
  std::string_view name;
  int bytes;
  bool trains;  // sums of gradients and activations have it
};
constexpr Type kTypes[] = {
    {"half", 2, true},    {"bfloat16", 2, true}, {"float", 4, true},  {"double", 8, false},
    {"int8", 1, false},   {"uint8", 1, false},   {"char", 1, false},  {"int32", 4, false},
    {"uint32", 4, false}, {"int", 4, false},     {"int64", 8, false}, {"uint64", 8, false},
    {"f8e4m3", 1, false}, {"f8e5m2", 1, false},
};

constexpr std::string_view kSuffix = "_perf";

bool is_name(char c) { return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9'); }

const Test& test_of(const NcclTable& table) {
  if (!table.program.empty()) {
    for (const Test& test : kTests) {
      if (table.program == fmt::format("{}{}", test.stem, kSuffix)) return test;
    }
    fail_at(table.place,
            fmt::format("expected a test of all-reduce, all-gather, reduce-scatter, all-to-all, "
                        "broadcast, reduce or send and receive, got {}",
                        in_quotes(table.program)));
  }
  const std::size_t slash = table.name.rfind('/');
  const std::string_view file = std::string_view(table.name).substr(slash + 1);
  for (const Test& test : kTests) {
    if (file.find(test.stem) != file.npos) return test;
  }
  fail_at(table.place,
          "expected the name of the test, as in \"# Collective test starting: all_reduce_perf\" or "
          "in the name of the file, got none");
}

const Type& type_of(const NcclRow& row) {
  for (const Type& type : kTypes) {
    if (type.name == row.type) return type;
  }
  fail_at(row.place, fmt::format("expected a format of numbers such as \"float\", got {}",
                                 in_quotes(row.type)));
}

double bus_factor(Bus bus, int ranks) {
  const double part = static_cast<double>(ranks - 1) / ranks;
  return bus == Bus::kOnce ? 1 : bus == Bus::kPart ? part : 2 * part;
}

// The rate of `size` bytes in the time, as far as its rounding goes, against the one printed.
void check_rate(const NcclRow& row, std::string_view column, double factor, const Printed& rate) {
  constexpr double kSlack = 1e-6;        // [derived] of single precision
  constexpr double kBytesPerGiga = 1e3;  // per microsecond at 1 GB/s
  const double bytes = static_cast<double>(row.size) * factor / kBytesPerGiga;
  const double most = bytes / std::max(row.time.value - row.time.half_unit, 1e-9) + rate.half_unit;
  const double least = bytes / (row.time.value + row.time.half_unit) - rate.half_unit;
  if (rate.value >= least * (1 - kSlack) - kSlack && rate.value <= most * (1 + kSlack) + kSlack)
    return;
  fail_at(row.place, fmt::format("expected {} {:.2f} of {} bytes in {} us, got {}", column,
                                 bytes / row.time.value, row.size, row.time.value, rate.value));
}

void check_row(const NcclRow& row, const Test& test, int ranks) {
  const int parts = test.counts == Counts::kPart ? ranks : 1;
  const Type& type = type_of(row);
  constexpr std::int64_t kMost = std::int64_t{1} << 50;  // [assumed] beyond any memory
  if (row.size < 0 || row.size > kMost || row.count < 0 || row.count > kMost)
    fail_at(row.place, fmt::format("expected a size from 0 to {} B, got {}", kMost, row.size));
  const double size = static_cast<double>(row.count) * type.bytes * parts;
  if (static_cast<double>(row.size) != size) {
    fail_at(row.place,
            fmt::format("expected size {:.0f} of {} times {} for {} ranks of {}{}, got {}", size,
                        row.count, row.type, ranks, test.stem, kSuffix, row.size));
  }
  constexpr double kLongest = 1e9;  // [assumed] us: a quarter of an hour
  if (!(row.time.value > 0 && row.time.value <= kLongest)) {
    fail_at(row.place, fmt::format("expected a time above 0 and up to {} us, got {}", kLongest,
                                   row.time.value));
  }
  check_rate(row, "algbw", 1, row.algbw);
  check_rate(row, "busbw", bus_factor(test.bus, ranks), row.busbw);
}

bool counts(const NcclRow& row, const Test& test) {
  if (!test.reduces) return true;
  return type_of(row).trains && (row.reduction.empty() || row.reduction == "sum");
}

// Ranks from 0 on, of one group, as many on each host.
void check_ranks(const NcclTable& table, NcclRun& run) {
  if (table.ranks.empty()) {
    fail_at(table.place,
            "expected the devices, \"#  Rank  0 Group 0 ..\", before the table, got none");
  }
  std::map<std::string, int> hosts;
  for (std::size_t i = 0; i < table.ranks.size(); ++i) {
    const NcclRank& one = table.ranks[i];
    check_next_rank(table.place, static_cast<int>(i) * table.ranks_each, one.rank);
    if (one.group != table.ranks[0].group) {
      fail_at(table.place,
              fmt::format("expected one group of ranks at a time, got groups {} and {}",
                          table.ranks[0].group, one.group));
    }
    hosts[one.host] += table.ranks_each;
  }
  run.ranks = static_cast<int>(table.ranks.size()) * table.ranks_each;
  run.nodes = static_cast<int>(hosts.size());
  const bool even = std::all_of(hosts.begin(), hosts.end(), [&](const auto& host) {
    return host.second == hosts.begin()->second;
  });
  if (run.ranks < 2) fail_at(table.place, "expected at least 2 ranks, got 1");
  if (!even) fail_at(table.place, "expected as many ranks on each host, got different numbers");
  if (run.ranks % table.ranks_per_process != 0) {
    fail_at(table.place, fmt::format("expected a multiple of {} ranks, got {}",
                                     table.ranks_per_process, run.ranks));
  }
}

}  // namespace

void check_next_rank(const std::string& place, int expected, int got) {
  if (got == expected) return;
  fail_at(place, fmt::format("expected rank {} after {} ranks, got rank {}: each process is on its "
                             "own where nccl-tests are built without MPI=1",
                             expected, expected, got));
}

void fail_at(const std::string& place, const std::string& message) {
  throw_bad_input(fmt::format("{}: {}", place, message));
}

std::optional<Printed> parse_printed(std::string_view text) {
  Printed result;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, result.value);
  if (status != std::errc{} || stop != end || !std::isfinite(result.value)) return std::nullopt;
  const std::size_t e = std::min(text.find('e'), text.size()), point = text.find('.');
  int exponent = 0;
  if (e + 1 < text.size()) {
    const char* const first = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(first, end, exponent);
  }
  if (point < e) exponent -= static_cast<int>(e - point - 1);
  result.half_unit = 0.5 * std::pow(10.0, exponent);
  return result;
}

std::string find_nccl_program(std::string_view text) {
  const std::size_t suffix = text.rfind(kSuffix);
  if (suffix == text.npos) return "";
  std::size_t begin = suffix;
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return std::string(text.substr(begin, suffix + kSuffix.size() - begin));
}

std::string nccl_version(std::int64_t code) {
  constexpr std::int64_t kFirstLong = 10'000;  // ncclGetVersion(): from 2.9 on
  const std::int64_t major = code < kFirstLong ? code / 1000 : code / 10'000;
  const std::int64_t minor = code < kFirstLong ? code / 100 % 10 : code / 100 % 100;
  return fmt::format("{}.{}.{}", major, minor, code % 100);
}

NcclRun checked_run(const NcclTable& table) {
  const Test& test = test_of(table);
  NcclRun run;
  run.program = fmt::format("{}{}", test.stem, kSuffix);
  run.kind = test.kind;
  run.software = table.software;
  run.date = table.date;
  run.place = table.place;
  check_ranks(table, run);
  run.device = table.ranks[0].device;
  for (const NcclRow& row : table.rows) {
    check_row(row, test, run.ranks);
    if (row.size == 0) continue;
    if (!counts(row, test)) {
      ++run.left_out;
      continue;
    }
    run.times.push_back({{row.size}, {row.time.value * 1e-6}});
  }
  if (run.times.empty()) {
    fail_at(table.place, fmt::format("expected {}, got {} other rows",
                                     test.reduces ? "sums of half, bfloat16 or float"
                                                  : "rows that move something",
                                     table.rows.size()));
  }
  return run;
}

}  // namespace zplan
