#include "planner/core/quantity.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <span>

namespace zplan {
namespace {

// One unit is factor / divisor of the base unit; both are exact, so "6 us" is the double 6e-6.
struct Unit {
  std::string_view name;
  double factor;
  double divisor = 1;
};

constexpr double kKi = 1024.0;
constexpr double kBitsPerByte = 8.0;

constexpr Unit kSizeUnits[] = {{"B", 1},
                               {"kB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"PB", 1e15},
                               {"KiB", kKi},
                               {"MiB", kKi* kKi},
                               {"GiB", kKi* kKi* kKi},
                               {"TiB", kKi* kKi* kKi* kKi},
                               {"PiB", kKi* kKi* kKi* kKi* kKi}};
constexpr Unit kBitRateUnits[] = {{"bit/s", 1 / kBitsPerByte},
                                  {"kbit/s", 1e3 / kBitsPerByte},
                                  {"Mbit/s", 1e6 / kBitsPerByte},
                                  {"Gbit/s", 1e9 / kBitsPerByte},
                                  {"Tbit/s", 1e12 / kBitsPerByte}};
constexpr Unit kFlopRateUnits[] = {{"FLOP/s", 1},     {"MFLOP/s", 1e6},  {"GFLOP/s", 1e9},
                                   {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18}};
constexpr Unit kTimeUnits[] = {{"s", 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"ns", 1, 1e9}};

struct Parts {
  long double number;  // 64 bits of mantissa where available: whole byte counts stay exact
  std::string_view unit;
};

// digits[.digits][ ]unit
std::optional<Parts> split(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i > begin;
  };
  if (!digits()) return std::nullopt;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return std::nullopt;
  }
  const std::string number(text.substr(0, i));
  if (i < text.size() && text[i] == ' ') ++i;
  return Parts{std::strtold(number.c_str(), nullptr), text.substr(i)};
}

const Unit* find_unit(std::string_view name, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

std::optional<long double> parse_exact(std::string_view text, std::span<const Unit> units) {
  const auto parts = split(text);
  const Unit* unit = parts ? find_unit(parts->unit, units) : nullptr;
  if (unit == nullptr) return std::nullopt;
  return parts->number * unit->factor / unit->divisor;
}

std::optional<double> parse(std::string_view text, std::span<const Unit> units) {
  const auto value = static_cast<double>(parse_exact(text, units).value_or(INFINITY));
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

// Three significant digits below 1000, none lost above.
std::string three_digits(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

// Scales by the largest unit that leaves a number of at least 1 as printed.
std::string scaled(double value, double base, std::span<const std::string_view> units,
                   std::string_view separator) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && std::abs(value) >= base * (1 - 0.0005)) {
    value /= base;
    ++unit;
  }
  return three_digits(value) + std::string(separator) + std::string(units[unit]);
}

constexpr int kDigits = 2;  // behind the point, of sizes

std::string format_bytes(Bytes size, int digits) {
  static constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  const auto value = static_cast<double>(size.value);
  if (std::abs(value) < kKi) return fmt::format("{} B", size.value);
  std::size_t unit = 0;
  double scaled_value = value / kKi;
  // 1024 - 0.005 would print as 1024.00 of the smaller unit.
  while (unit + 1 < std::size(kUnits) && std::abs(scaled_value) >= kKi - 0.005) {
    scaled_value /= kKi;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", scaled_value, digits, kUnits[unit]);
}

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  constexpr long double kLimit = 9223372036854775808.0L;  // 2^63
  const long double value = std::round(parse_exact(text, kSizeUnits).value_or(kLimit));
  if (!(value < kLimit)) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(value)};
}

std::optional<BytesPerSecond> parse_bytes_per_second(std::string_view text) {
  if (const auto bits = parse(text, kBitRateUnits)) return BytesPerSecond{*bits};
  if (!text.ends_with("/s")) return std::nullopt;
  const auto value = parse(text.substr(0, text.size() - 2), kSizeUnits);
  return value ? std::optional(BytesPerSecond{*value}) : std::nullopt;
}

std::optional<FlopsPerSecond> parse_flops_per_second(std::string_view text) {
  const auto value = parse(text, kFlopRateUnits);
  return value ? std::optional(FlopsPerSecond{*value}) : std::nullopt;
}

std::optional<Seconds> parse_seconds(std::string_view text) {
  const auto value = parse(text, kTimeUnits);
  return value ? std::optional(Seconds{*value}) : std::nullopt;
}

std::string format_bytes(Bytes size) { return format_bytes(size, kDigits); }

std::pair<std::string, std::string> format_apart(Bytes one, Bytes other) {
  constexpr int kMostDigits = kDigits + 4;
  for (int digits = kDigits; digits <= kMostDigits; ++digits) {
    std::pair words{format_bytes(one, digits), format_bytes(other, digits)};
    if (words.first != words.second || one == other) return words;
  }
  return {fmt::format("{} B", one.value), fmt::format("{} B", other.value)};
}

std::string format_seconds(Seconds time) {
  const double size = std::abs(time.value);
  if (size == 0) return "0 s";
  if (size >= 0.9995) return three_digits(time.value) + " s";
  if (size >= 0.9995e-3) return three_digits(time.value * 1e3) + " ms";
  if (size >= 0.9995e-6) return three_digits(time.value * 1e6) + " us";
  return three_digits(time.value * 1e9) + " ns";
}

std::string format_count(double count) {
  static constexpr std::string_view kUnits[] = {"", "K", "M", "B", "T", "Q"};
  if (std::abs(count) < 1000 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  return scaled(count, 1000, kUnits, "");
}

std::string format_rate(BytesPerSecond rate) {
  static constexpr std::string_view kUnits[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
  return scaled(rate.value, 1000, kUnits, " ");
}

std::string format_rate(FlopsPerSecond rate) {
  static constexpr std::string_view kUnits[] = {"FLOP/s",  "kFLOP/s", "MFLOP/s", "GFLOP/s",
                                                "TFLOP/s", "PFLOP/s", "EFLOP/s"};
  return scaled(rate.value, 1000, kUnits, " ");
}

}  // namespace zplan
