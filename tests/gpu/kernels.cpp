// Tolerances. Inputs are the same on both sides; float64 on the CPU stands for the truth. With
// u(type) = 2^-p for a type of p significant bits, an output may differ by
//   roundings(kernel) u(its type)            once; more where it is added to piece by piece
//   + intermediate(kernel) u(compute type)   what the kernel itself keeps in the compute type
//   + factor sqrt(longest sum) u(float32)    sums in float32, and functions of some ten operations
//   + 2^-12                                  of products in fp8
// of the greatest element of that output, before or after, each element; and of its norm, all
// together. (What is added may cancel what was there.)
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "planner/program/kernels/fp8_products.h"
#include "tests/gpu/case_list.h"
#include "tests/gpu/parts.h"

namespace zplan::gpu {
namespace {

double unit_roundoff(DType type) {
  switch (type) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kF32:
      return 0x1p-24;
    case DType::kF16:
      return 0x1p-11;
    case DType::kBf16:
      return 0x1p-8;
    case DType::kI32:
    case DType::kU8:
      return 0;
  }
  return 0;
}

// Roundings to the compute type on the way to an output: probabilities in front of the second
// product of attention; in backward these, the gradients of the scores, and the output that the
// row sums are taken of [Dao22 sec 3]. Fused kernels may go on with what they rounded for the first
// of two outputs.
int intermediate(KernelId kernel) {
  switch (kernel) {
    case KernelId::kAttentionForward:
    case KernelId::kLinearGeluForward:
    case KernelId::kGeluInputGradient:
    case KernelId::kResidualLayerNormForward:
    case KernelId::kResidualRmsNormForward:
      return 2;
    case KernelId::kAttentionBackward:
      return 6;
    default:
      return 0;
  }
}

// To the type of the output: tokens that occur again add to the same row of the table, [derived]
// more than four times is unlikely among the tokens drawn here; of products that add, see
// exec/cuda/gemm.h.
int roundings(const Case& c) {
  if (c.kernel == KernelId::kEmbeddingBackward) return 4;
  return c.adds && kernel_def(c.kernel).kind == WorkKind::kGemm ? 2 : 1;
}

double longest_sum(const Case& c) {
  const WorkKind kind = kernel_def(c.kernel).kind;
  std::int64_t longest = 1;
  for (const auto& [letter, size] : c.sizes)
    if ((letter != "*" && letter != "n") || kind == WorkKind::kGemm)
      longest = std::max(longest, size);
  return static_cast<double>(longest);
}

// Of functions in float32: 1 - tanh^2, near the ends where tanh is almost 1, is a difference of
// almost equal numbers, which a factor that grows like the cube of the argument enlarges. [derived]
int function_factor(KernelId kernel) {
  return kernel == KernelId::kGeluBackward || kernel == KernelId::kGeluInputGradient ? 32 : 8;
}

// Of the sums in the units that multiply in fp8: [DeepSeek24b sec 3.3.2] found some 14 bits between
// one promotion to float32 and the next.
double of_fp8(const Case& c, const KernelSet& set) {
  std::vector<View> views;
  for (const CaseOperand& operand : operands_of(c, set)) views.push_back(operand.view);
  return multiplies_in_fp8(set, c.kernel, views) ? 0x1p-12 : 0;
}

double tolerance(const Case& c, const KernelSet& set, const View& output) {
  return of_fp8(c, set) + roundings(c) * unit_roundoff(output.dtype) +
         intermediate(c.kernel) * unit_roundoff(set.compute) +
         function_factor(c.kernel) * std::sqrt(longest_sum(c)) * unit_roundoff(DType::kF32);
}

double norm_of(const std::vector<double>& values) {
  double square = 0;
  for (double value : values) square += value * value;
  return std::sqrt(square);
}

double greatest_of(const std::vector<double>& values) {
  double greatest = 0;
  for (double value : values) greatest = std::max(greatest, std::abs(value));
  return greatest;
}

// Differences relative to the greatest element and to the norm, whichever is greater; infinite when
// something is not a number. `before`: what the kernel updated; empty: nothing.
double error_of(const std::vector<double>& got, const std::vector<double>& expected,
                const std::vector<double>& before) {
  double worst = 0, square = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
    square += difference * difference;
  }
  if (worst == 0) return 0;
  return std::max(worst / std::max(greatest_of(expected), greatest_of(before)),
                  std::sqrt(square) / std::max(norm_of(expected), norm_of(before)));
}

struct Worst {
  double share = 0;  // of the tolerance
  std::string what;
};

// Of one case the output that uses most of its tolerance.
Worst try_case(exec::Device& device, const KernelSet& set, const Case& c, std::mt19937_64& random) {
  const Values inputs = consistent_inputs(c, set, random);
  CaseRun run(device, set, c, inputs);
  run.launch();
  run.finish();
  const Values got = run.outputs(), expected = reference(c, set, inputs);
  const auto operands = operands_of(c, set);
  Worst worst;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (got[i].empty()) continue;
    const double allowed = tolerance(c, set, operands[i].view);
    const bool updates = operands[i].view.access == Access::kUpdate;
    const double error = error_of(got[i], expected[i], updates ? inputs[i] : std::vector<double>{});
    if (error / allowed < worst.share || (worst.share > 0 && error == 0)) continue;
    worst.share = error / allowed;
    worst.what = fmt::format("{} off by {:.2g}, allowed {:.2g}, at {}", operands[i].name, error,
                             allowed, describe(c));
  }
  return worst;
}

// Returns one case of the kernel, or all where the target tries all.
std::vector<Case> cases_for(const Target& target, KernelId kernel, std::mt19937_64& random) {
  std::vector<Case> all = cases_of(kernel, false);
  if (target.tries_all() || all.empty()) return all;
  return {all[random() % all.size()]};
}

void try_kernel(const Target& target, const KernelSet& set, KernelId kernel,
                std::mt19937_64& random, Report& report) {
  const std::string row = fmt::format("{} {}", set.id, name(kernel));
  const std::vector<Case> cases = cases_for(target, kernel, random);
  if (cases.empty()) return report.fail("kernels", row, "nothing is tried");
  Worst worst;
  for (const Case& c : cases) {
    try {
      const Worst own = try_case(*target.device, set, c, random);
      if (own.share >= worst.share) worst = own;
    } catch (const std::exception& error) {
      return report.fail("kernels", row, fmt::format("{}: {}", describe(c), error.what()));
    }
  }
  report.add({.part = "kernels",
              .name = row,
              .figure = worst.share,
              .unit = "of tolerance",
              .relation = Goal::kAtMost,
              .goal = 1,
              .note = fmt::format("{} cases; {}", cases.size(), worst.what)});
}

}  // namespace

void check_kernels(const Target& target, const PartOptions& options, Report& report) {
  std::mt19937_64 random(options.seed);
  for (const std::string& id : target.kernel_sets()) {
    if (id.empty()) continue;
    const KernelSet& set = find_kernel_set(id);
    for (int k = 0; k < kKernelCount; ++k) {
      const auto kernel = static_cast<KernelId>(k);
      if (!declares(set, kernel) || is_planned_only(kernel, RunsOn::kCuda) ||
          kernel_def(kernel).kind == WorkKind::kHost)
        continue;
      try_kernel(target, set, kernel, random, report);
    }
  }
}

}  // namespace zplan::gpu
