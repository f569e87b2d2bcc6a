// One line per kernel, on operands too large for caches, against what the device does best in the
// same run: kernels that stream against a copy on the device (bytes read and written), products and
// attention against the fastest product. Launches are timed back to back, by the wall clock.
// Products in fp8, their casts among them, stand beside the fastest product in 16 bits: no goal,
// since none of them was measured yet.
#include <fmt/format.h>

#include <exception>
#include <random>

#include "planner/core/quantity.h"
#include "tests/gpu/parts.h"
#include "tests/gpu/rates.h"

namespace zplan::gpu {
namespace {

// Shares of the best rate. [assumed] what leaves little to gain by another kernel
constexpr double kStreaming = 0.8, kProduct = 0.8, kAttention = 0.5;

// "; cuDNN, 2 sequences of 12 heads at a time"
std::string chosen(CaseRun& run) {
  std::string text;
  for (const exec::KernelChoice& choice : run.backend().choices()) {
    const std::size_t colon = choice.kernel.find(": ");
    text += "; " + choice.kernel.substr(colon == std::string::npos ? 0 : colon + 2);
  }
  return text;
}

void measure_case(const Target& target, const KernelSet& set, const Case& c, const Rates& best,
                  std::mt19937_64& random, Report& report) {
  const Demand demand = demand_of(c, set);
  CaseRun run(*target.device, set, c, draw_inputs(c, set, random));
  const double seconds = launch_seconds(run);
  const bool streams = demand.kind == WorkKind::kMemory;
  const bool in_fp8 = multiplies_in_fp8(set, c.kernel);
  const double rate =
      static_cast<double>(streams ? demand.bytes.value : demand.flops.value) / seconds;
  report.add({.part = "kernel-speed",
              .name = fmt::format("{} {}", set.id, name(c.kernel)),
              .figure = rate / (streams ? best.copy : best.product),
              .unit = streams ? "of copy" : "of product",
              .relation = in_fp8 ? Goal::kNone : Goal::kAtLeast,
              .goal = streams                               ? kStreaming
                      : demand.kind == WorkKind::kAttention ? kAttention
                                                            : kProduct,
              .note = fmt::format(
                  "{}, {} at {}{}",
                  streams ? format_rate(BytesPerSecond{rate}) : format_rate(FlopsPerSecond{rate}),
                  format_seconds(Seconds{seconds}), describe(c), chosen(run))});
}

void measure_kernel(const Target& target, const KernelSet& set, KernelId kernel, const Rates& best,
                    std::mt19937_64& random, Report& report) {
  for (const Case& c : cases_of(kernel, true)) {
    try {
      measure_case(target, set, c, best, random, report);
    } catch (const std::exception& error) {
      report.fail("kernel-speed", fmt::format("{} {}", set.id, name(kernel)),
                  fmt::format("{}: {}", describe(c), error.what()));
    }
  }
}

}  // namespace

void measure_kernels(const Target& target, const PartOptions& options, Report& report) {
  std::mt19937_64 random(options.seed);
  const std::string& id = target.bf16.empty() ? target.fp16 : target.bf16;
  const KernelSet& set = find_kernel_set(id);
  const Rates best = measure_rates(target, set, random);
  report.add({.part = "kernel-speed",
              .name = "copy on the device",
              .figure = best.copy / 1e12,
              .unit = "TB/s",
              .note = "read and written"});
  report.add({.part = "kernel-speed",
              .name = "fastest product",
              .figure = best.product / 1e12,
              .unit = "TFLOP/s",
              .note = id});
  for (int k = 0; k < kKernelCount; ++k) {
    const auto kernel = static_cast<KernelId>(k);
    // One number is no load.
    if (!declares(set, kernel) || is_planned_only(kernel, RunsOn::kCuda) ||
        kernel == KernelId::kClipCoefficient)
      continue;
    measure_kernel(target, set, kernel, best, random, report);
    if (!target.fp8.empty() && multiplies_in_fp8(find_kernel_set(target.fp8), kernel))
      measure_kernel(target, find_kernel_set(target.fp8), kernel, best, random, report);
  }
}

}  // namespace zplan::gpu
