#include "planner/certainty/knowledge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <string_view>

#include "planner/core/quantity.h"
#include "planner/cost/reliance.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

// Offset of a group of runs of software and a class of devices that were measured: about the median
// over the groups of tests/data/blind_runs.jsonl of which nothing is unknown. What is unknown
// besides adds its own [assumed].
constexpr double kKnownOffset = 0.08;
constexpr double kUnknownFormat = 0.08, kUnknownFeature = 0.05, kUnknownScale = 0.02;
// Between software: of groups of runs whose software took no part in the fit, beside what their
// rates leave open. reports/blind.json (software_left_out) has the errors that it covers.
constexpr double kBetweenSoftware = 0.20;
constexpr double kLeastRun = 0.05;        // [assumed] of a single run, also where more was not seen
constexpr double kMeasuredSpread = 0.05;  // [assumed] of what `calibrate` or a benchmark measured

// [assumed] of clocks that last where neither runs nor rows of training say them: from H100's to
// B200's is twice that.
constexpr double kAssumedSettling = 0.1;

// What the hardware's times rest on in a profile, where devices are cores in the measured table of
// these, and how far figures of other sources are off [assumed].
struct HardwareRow {
  HardwareTime kind;
  std::string_view pointer, on_cores;
  double spread;
};
constexpr std::array<HardwareRow, kHardwareTimeCount> kHardware{{
    {HardwareTime::kProducts, "/device/gemm_efficiency", "/cores/kernels", 0.08},
    {HardwareTime::kAttention, "/device/attention_efficiency", "/cores/kernels", 0.15},
    {HardwareTime::kMemory, "/device/memory_efficiency", "/cores/kernels", 0.08},
    {HardwareTime::kLaunch, "/device/launch_overhead", "/cores/operation", 0.3},
    {HardwareTime::kPeerLinks, "/topology/links/gpu_peer/efficiency", "/cores/collectives", 0.15},
    {HardwareTime::kNetwork, "/topology/links/nic/efficiency", "", 0.2},
    {HardwareTime::kHostMemory, "/host/cpu_memory_efficiency", "/cores/kernels", 0.2},
    {HardwareTime::kHostLink, "/topology/links/gpu_pcie/efficiency", "/cores/copies", 0.15},
    {HardwareTime::kDrives, "/nvme/efficiency", "/cores/reads", 0.2},
}};

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_measured(const HwProfile& node, std::string_view pointer) {
  return std::ranges::any_of(node.sources, [&](const ValueSource& value) {
    return value.pointer == pointer && value.source == "measured";
  });
}

int capability_of(const HwProfile& node) {
  return find_kernel_set(node.device.kernel_set).capability;
}

// The device's own, which comes after that of the node it stands in.
bool settles_as_assumed(const HwProfile& node) {
  const auto last =
      std::find_if(node.sources.rbegin(), node.sources.rend(),
                   [](const ValueSource& value) { return value.pointer.ends_with("/sustained"); });
  return last != node.sources.rend() && last->source == "assumed";
}

}  // namespace

bool is_calibrated(const HwProfile& node, HardwareTime kind) {
  const HardwareRow& row = *std::ranges::find(kHardware, kind, &HardwareRow::kind);
  const std::string_view pointer = node.cores ? row.on_cores : row.pointer;
  return std::ranges::any_of(node.sources, [&](const ValueSource& value) {
    return value.pointer == pointer && value.ref.starts_with("zplan calibrate");
  });
}

bool is_ideal(const StackProfile& stack) {
  return std::ranges::all_of(stack_rates(), [&](const StackRate& rate) {
    return rate.spread == 0 ||
           std::ranges::find(stack.values, rate.name, &StackValue::name) == stack.values.end();
  });
}

namespace {

double sd_of(const StackRate& rate, const StackValue* value) {
  if (value != nullptr && rate.spread == 0) return value->uncertainty;
  if (value == nullptr || value->source == "assumed") return rate.spread;
  return value->source == "fitted" ? value->uncertainty : kMeasuredSpread;
}

// The rate that a fitted value is of, where that is the one of these devices.
std::optional<std::size_t> rate_of(const std::string& key, const StackProfile& stack,
                                   int capability) {
  const auto rates = stack_rates();
  for (std::size_t k = 0; k < rates.size(); ++k) {
    const StackValue* const value = stack.value_of(rates[k].name, capability);
    if (value != nullptr && rate_key(value->name, value->capability) == key) return k;
  }
  return std::nullopt;
}

// Off the diagonal what the fit says.
void correlate(const MeasuredStack& runs, const StackProfile& stack, int capability,
               Knowledge& knowledge) {
  std::vector<std::optional<std::size_t>> rates;
  for (const std::string& key : runs.fitted) rates.push_back(rate_of(key, stack, capability));
  for (std::size_t i = 0; i < runs.fitted.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!rates[i] || !rates[j]) continue;
      const std::size_t k = *rates[i], l = *rates[j];
      const double sds = knowledge.covariance[k][k] * knowledge.covariance[l][l];
      knowledge.covariance[k][l] = knowledge.covariance[l][k] =
          runs.correlation[i][j] * std::sqrt(sds);
    }
  }
}

void add_rates(const Evidence& evidence, int capability, Knowledge& knowledge) {
  const auto rates = stack_rates();
  if (evidence.covariance) {
    for (std::size_t k = 0; k < rates.size(); ++k)
      std::ranges::copy((*evidence.covariance)[k], knowledge.covariance[k].begin());
    return;
  }
  for (std::size_t k = 0; k < rates.size(); ++k) {
    const double sd = sd_of(rates[k], evidence.stack.value_of(rates[k].name, capability));
    if (is_ideal(evidence.stack)) {
      knowledge.slower[k] = sd;
    } else {
      knowledge.covariance[k][k] = sd * sd;
    }
  }
  if (!evidence.runs.empty())
    correlate(evidence.runs.front(), evidence.stack, capability, knowledge);
}

void add_hardware(const HwProfile& node, Knowledge& knowledge) {
  for (const HardwareRow& row : kHardware) {
    const double sd = is_measured(node, row.pointer) ? kMeasuredSpread : row.spread;
    const std::size_t k = constant_of(row.kind);
    knowledge.covariance[k][k] = sd * sd;
  }
  const std::size_t products = constant_of(HardwareTime::kProducts);
  if (settles_as_assumed(node))
    knowledge.covariance[products][products] += kAssumedSettling * kAssumedSettling;
}

// A run that speaks for this class of devices stands among those measured.
bool has_class(const std::optional<MeasuredStack>& measured, const std::string& device) {
  return measured && std::ranges::any_of(measured->devices, [&](const std::string& other) {
           return same_class(other, device);
         });
}

// Software in a class of devices that no run speaks for, in words; nothing: one does.
std::optional<std::string> unknown_software(const Evidence& evidence,
                                            const std::optional<MeasuredStack>& measured,
                                            const Kind& kind) {
  const std::string& stack = evidence.stack.name;
  if (!evidence.stated)
    return fmt::format("software or kernels that are not known to be those of {}", stack);
  if (!measured) return fmt::format("no run of {} was ever measured", stack);
  if (has_class(measured, kind.device)) return std::nullopt;
  return fmt::format("no run of {} on {}", stack, kind.device);
}

// The overall factor, less known for everything that no run speaks for.
void add_overall(const Evidence& evidence, const std::optional<MeasuredStack>& measured,
                 const Kind& kind, Knowledge& knowledge) {
  const std::string& stack = evidence.stack.name;
  const std::size_t k = constant_of(&StackRates::overall);
  double& variance = knowledge.covariance[k][k];
  const auto widen = [&](double sd, std::string what) {
    variance += sd * sd;
    knowledge.unknown.push_back(std::move(what));
  };
  if (auto what = unknown_software(evidence, measured, kind)) {
    if (is_ideal(evidence.stack)) {
      knowledge.slower[k] = kBetweenSoftware;
      knowledge.unknown.push_back(*what);
    } else {
      widen(kBetweenSoftware, *what);
    }
  }
  knowledge.run_sd = kLeastRun;
  if (!measured) return;
  const MeasuredStack& runs = *measured;
  knowledge.run_sd = std::max(runs.run_sd, kLeastRun);
  if (!evidence.covariance) variance += kKnownOffset * kKnownOffset;
  if (!has(runs.formats, kind.format))
    widen(kUnknownFormat, fmt::format("no run of {} in {}", stack, kind.format));
  for (const std::string& feature : kind.features)
    if (!has(runs.features, feature))
      widen(kUnknownFeature, fmt::format("no run of {} with {}", stack, feature));
  if (kind.devices > 2 * runs.most_devices)
    widen(kUnknownScale * std::log2(static_cast<double>(kind.devices) / runs.most_devices),
          fmt::format("no run of {} on more than {}", stack,
                      runs.most_devices == 1 ? "one device"
                                             : fmt::format("{} devices", runs.most_devices)));
}

}  // namespace

Evidence evidence_of(const StackProfile& stack, const MeasuredRuns& runs) {
  return {.stack = stack, .runs = runs.of_stack(stack.name)};
}

std::optional<MeasuredStack> runs_for(const Evidence& evidence, const std::string& device) {
  if (evidence.runs.empty()) return std::nullopt;
  for (const MeasuredStack& runs : evidence.runs)
    if (has(runs.devices, device)) return runs;
  MeasuredStack all = evidence.runs.front();
  for (const MeasuredStack& runs : std::span(evidence.runs).subspan(1)) {
    all.runs += runs.runs;
    all.run_sd = std::max(all.run_sd, runs.run_sd);
    all.most_devices = std::max(all.most_devices, runs.most_devices);
    all.devices.insert(all.devices.end(), runs.devices.begin(), runs.devices.end());
    all.formats.insert(all.formats.end(), runs.formats.begin(), runs.formats.end());
    all.features.insert(all.features.end(), runs.features.begin(), runs.features.end());
  }
  return all;
}

Knowledge knowledge_of(const Evidence& evidence, const HwProfile& node, const Kind& kind) {
  Knowledge knowledge;
  const bool measured = is_ideal(evidence.stack) && is_calibrated(node, HardwareTime::kProducts);
  if (!measured || evidence.covariance) add_rates(evidence, capability_of(node), knowledge);
  const std::optional<MeasuredStack> runs = runs_for(evidence, kind.device);
  if (!has_class(runs, kind.device)) add_hardware(node, knowledge);
  add_overall(evidence, runs, kind, knowledge);
  return knowledge;
}

std::string source_of(Constant constant, const Evidence& evidence, const HwProfile& node) {
  const auto rates = stack_rates();
  if (constant >= rates.size()) {
    const HardwareRow& row = kHardware[constant - rates.size()];
    for (const ValueSource& value : node.sources)
      if (value.pointer == row.pointer)
        return fmt::format("{} {}, {}: {}", row.pointer, value.value, value.source, value.ref);
    return fmt::format("{}, [assumed] how far such figures are off", row.pointer);
  }
  const StackRate& rate = rates[constant];
  const int capability = capability_of(node);
  const double value = evidence.stack.rates_on(capability).*rate.member;
  const std::string shown = rate.seconds ? format_seconds({value}) : fmt::format("{:.4g}", value);
  if (evidence.covariance) return shown + ", moved by measured runs (--anchor, --measured)";
  const StackValue* const given = evidence.stack.value_of(rate.name, capability);
  if (given != nullptr) return fmt::format("{}, {}: {}", shown, given->source, given->ref);
  return fmt::format("{}, [assumed] spread of such rates over stacks{}", shown,
                     is_ideal(evidence.stack) ? "; it can only be slower than the hardware" : "");
}

Knowledge with_normal_constants(Knowledge knowledge) {
  for (std::size_t k = 0; k < knowledge.mean.size(); ++k) {
    const double s = knowledge.slower[k];
    knowledge.mean[k] += s * std::sqrt(2 / std::numbers::pi);
    knowledge.covariance[k][k] += s * s * (1 - 2 / std::numbers::pi);  // of a half-normal
    knowledge.slower[k] = 0;
  }
  return knowledge;
}

}  // namespace zplan
