// Text <-> quantities with units; the only place where unit names are known.
//
// Input: a decimal number >= 0, one space (or none), a unit, nothing else.
//   sizes   B, kB, MB, GB, TB, PB (powers of 1000), KiB, MiB, GiB, TiB, PiB (powers of 1024)
//   rates   a size unit + "/s", or bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s (8 bit = 1 byte)
//   compute FLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s
//   time    s, ms, us, ns
// Sizes are rounded to whole bytes. Unit names are case-sensitive ("Mb" and "mB" mean nothing).
// Output is for people: fixed digits, never read back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "planner/core/units.h"

namespace zplan {

// nullopt: not such a quantity, or one that does not fit (sizes up to 2^63 - 1 bytes).
std::optional<Bytes> parse_bytes(std::string_view text);
std::optional<BytesPerSecond> parse_bytes_per_second(std::string_view text);
std::optional<FlopsPerSecond> parse_flops_per_second(std::string_view text);
std::optional<Seconds> parse_seconds(std::string_view text);

// What an error message says was expected.
inline constexpr std::string_view kBytesExpected = "a size with a unit such as \"80 GiB\"";
inline constexpr std::string_view kBytesPerSecondExpected =
    "a rate with a unit such as \"12.5 GB/s\" or \"100 Gbit/s\"";
inline constexpr std::string_view kFlopsPerSecondExpected =
    "a compute rate with a unit such as \"125 TFLOP/s\"";
inline constexpr std::string_view kSecondsExpected = "a time with a unit such as \"6 us\"";

std::string format_bytes(Bytes size);  // "31.75 GiB", "512 B"; powers of 1024
// Two sizes that are held against each other, with so many more digits as tell them apart:
// "21.5612 GiB" and "21.5609 GiB"; in bytes where four more do not.
std::pair<std::string, std::string> format_apart(Bytes one, Bytes other);
std::string format_seconds(Seconds time);      // "2.14 s", "3.10 ms", "850 ns"
std::string format_count(double count);        // "124M", "10.3B", "1.03T"; powers of 1000
std::string format_rate(BytesPerSecond rate);  // "3.35 TB/s"; powers of 1000
std::string format_rate(FlopsPerSecond rate);  // "125 TFLOP/s"

}  // namespace zplan
