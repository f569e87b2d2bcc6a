#include "planner/validate/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

using enum MeasuredKind;

constexpr std::array<SpeedUnit, 14> kSpeedUnits{{
    {"s", kStep, 1},
    {"ms", kStep, 1e-3},
    {"min", kStep, 60},
    {"tflop/s", kModelFlops, 1e12},
    {"gflop/s", kModelFlops, 1e9},
    {"pflop/s", kModelFlops, 1e15},
    {"tflops", kModelFlops, 1e12},
    {"gflops", kModelFlops, 1e9},
    {"pflops", kModelFlops, 1e15},
    {"%mfu", kMfu, 0.01},
    {"tok/s", kTokens, 1},
    {"tokens/s", kTokens, 1},
    {"ktok/s", kTokens, 1e3},
    {"mtok/s", kTokens, 1e6},
}};
constexpr std::string_view kPerDevice = "/gpu";

// The ends of words that say a size.
struct ReadingWord {
  std::string_view end;
  MemoryReading reading{};
};
constexpr std::array<ReadingWord, 3> kReadings{{{":nvidia-smi", MemoryReading::kDevice},
                                                {":reserved", MemoryReading::kReserved},
                                                {":allocated", MemoryReading::kAllocated}}};

constexpr double kMostNumber = 1e18;  // [assumed] of anything that is measured here
// [assumed] of a prediction: a run that took longer is of another plan, of several steps, or was
// typed in another unit.
constexpr double kMostSlower = 20;

[[noreturn]] void fail(const std::string& word, const std::string& hint) {
  throw_bad_input(
      fmt::format("--measured: expected a number with its unit, as 5.2s, 412TFLOP/s, 38%MFU, "
                  "9500tok/s, 9500tok/s/gpu or 61GiB, got {}{}",
                  in_quotes(word), hint));
}

[[noreturn]] void fail_above_zero(const std::string& word) {
  throw_bad_input(fmt::format("--measured: expected a number above zero, got {}", in_quotes(word)));
}

// A size stands before a colon, and what follows is none of the words for its reading.
[[noreturn]] void fail_reading(std::string_view size, const std::string& word) {
  std::vector<std::string> known;
  for (const ReadingWord& row : kReadings) known.push_back(fmt::format("{}{}", size, row.end));
  throw_bad_input(fmt::format(
      "--measured: expected {} as nvidia-smi shows it, or {} or {} as PyTorch's allocator says, "
      "got {}{}",
      size, known[1], known[2], in_quotes(word), did_you_mean(word, known)));
}

std::optional<MeasuredSize> size_of(const std::string& word) {
  MeasuredSize found{.size = {}, .reading = MemoryReading::kDevice, .text = word};
  std::string_view size = word;
  for (const ReadingWord& row : kReadings) {
    if (!size.ends_with(row.end)) continue;
    found.reading = row.reading;
    size.remove_suffix(row.end.size());
    break;
  }
  const std::optional<Bytes> bytes = parse_bytes(size);
  if (bytes && bytes->value <= 0) fail_above_zero(word);
  if (const std::size_t colon = word.find(':'); !bytes && colon != std::string::npos)
    if (const std::string_view before = size.substr(0, colon); parse_bytes(before))
      fail_reading(before, word);
  if (!bytes) return std::nullopt;
  found.size = *bytes;
  return found;
}

// This says what to type instead of a unit that there is not.
std::string unit_hint(const std::string& unit) {
  if (unit.empty()) return ", which has no unit";
  if (unit == "%") return "; did you mean %MFU?";
  if (unit == "%hfu") return "; HFU counts recomputation, too: give the MFU or the step time";
  if (unit == "tps") return "; write tok/s for the tokens of all GPUs, tok/s/gpu for those of one";
  static const std::vector<std::string> kSpelled = {
      "s",     "ms",       "min",    "TFLOP/s", "GFLOP/s", "PFLOP/s", "%MFU",
      "tok/s", "tokens/s", "ktok/s", "GiB",     "GB",      "MiB",     "MB"};
  return did_you_mean(unit, kSpelled);
}

// The kind and factor of a unit in lower case; FLOPs are of one GPU, whether it says so or not.
std::optional<SpeedUnit> find_unit(std::string_view unit) {
  const bool is_per_device = unit.ends_with(kPerDevice);
  if (is_per_device) unit.remove_suffix(kPerDevice.size());
  const auto* const row = std::ranges::find(kSpeedUnits, unit, &SpeedUnit::unit);
  if (row == kSpeedUnits.end()) return std::nullopt;
  SpeedUnit found = *row;
  if (!is_per_device || found.kind == kModelFlops) return found;
  if (found.kind != kTokens) return std::nullopt;
  found.kind = kTokensPerDevice;
  return found;
}

MeasuredSpeed speed_of(const std::string& word) {
  double number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, status] = std::from_chars(word.data(), end, number);
  const bool is_number = status == std::errc{} && std::isfinite(number);
  if (is_number && number <= 0) fail_above_zero(word);
  if (!is_number || !is_measured_number(word)) fail(word, "");
  std::string unit = to_lower(std::string_view(rest, static_cast<std::size_t>(end - rest)));
  std::erase(unit, ' ');
  const std::optional<SpeedUnit> found = find_unit(unit);
  if (!found) fail(word, unit_hint(unit));
  const double value = number * found->factor;
  if (!(value > 0 && value < kMostNumber)) fail(word, "");
  if (found->kind == kMfu && value > 1)
    throw_bad_input(fmt::format("--measured: expected at most 100%MFU, got {}", in_quotes(word)));
  return {found->kind, value, word};
}

[[noreturn]] void fail_twice(const char* what, const std::string& one, const std::string& other) {
  throw_bad_input(fmt::format("--measured: expected one {} of a run, got {} and {}", what,
                              in_quotes(one), in_quotes(other)));
}

}  // namespace

void Measured::add(const std::string& word) {
  if (auto found = size_of(word)) {
    if (size) fail_twice("size", size->text, word);
    size = std::move(found);
    return;
  }
  MeasuredSpeed found = speed_of(word);
  if (speed) fail_twice("step time, or speed, which says it,", speed->text, word);
  speed = std::move(found);
}

std::span<const SpeedUnit> speed_units() { return kSpeedUnits; }

bool is_measured_number(std::string_view word) {
  return !word.empty() && word.front() >= '0' && word.front() <= '9';
}

Seconds step_of(const MeasuredSpeed& speed, const Throughput& predicted, Seconds period,
                int devices) {
  constexpr double kTera = 1e12;
  const auto at_rate = [&](double rate) {
    if (rate <= 0)
      throw_bad_input(
          fmt::format("--measured: expected a step time, as the plan has no matrix product, got {}",
                      in_quotes(speed.text)));
    return period * (rate / speed.value);
  };
  switch (speed.kind) {
    case kStep:
      return {speed.value};
    case kModelFlops:
      return at_rate(predicted.model_tflops_per_gpu * kTera);
    case kMfu:
      return at_rate(predicted.mfu);
    case kTokens:
      return at_rate(predicted.tokens_per_second);
    case kTokensPerDevice:
      return at_rate(predicted.tokens_per_second / devices);
  }
  ZPLAN_ASSERT(false);
}

void check_step(const MeasuredSpeed& speed, Seconds step, const Throughput& predicted,
                Seconds period) {
  // [derived] HFU is the time of the products at the peak over the period.
  const Seconds least = period * predicted.hfu, most = period * kMostSlower;
  const auto refuse = [&](const std::string& expected) {
    throw_bad_input(fmt::format("--measured: expected {}, got {}{}", expected,
                                in_quotes(speed.text),
                                speed.kind == kStep ? "" : ", a step of " + format_seconds(step)));
  };
  if (step < least)
    refuse(
        fmt::format("a step of at least {}, which the matrix products of the plan take at the "
                    "peak of its GPUs (no software beats it)",
                    format_seconds(least)));
  if (step > most)
    refuse(
        fmt::format("a step of at most {}, {:g} times the predicted {} (is it of this plan, and "
                    "of one step?)",
                    format_seconds(most), kMostSlower, format_seconds(period)));
}

}  // namespace zplan
