// Products in fp8 on the stand-in GPU, one by one: what float64 on the CPU makes of operands that
// are rounded as cpu.f64.fp8.whole rounds them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "planner/core/error.h"
#include "planner/program/kernels/fp8_products.h"
#include "tests/gpu/case_list.h"
#include "tests/support/gpu/judged_device.h"
#include "tests/support/gpu/stand_in.h"

namespace zplan {
namespace {

using gpu::Case;
using gpu::CaseOperand;
using gpu::Values;

constexpr std::int64_t kTokens = 32;

std::vector<KernelId> products_of(const KernelSet& set) {
  std::vector<KernelId> all;
  for (int i = 0; i < kKernelCount; ++i) {
    const auto id = static_cast<KernelId>(i);
    if (declares(set, id) && multiplies_in_fp8(set, id) && !is_planned_only(id, RunsOn::kCuda))
      all.push_back(id);
  }
  return all;
}

bool has_gelu(KernelId kernel) {
  return kernel == KernelId::kLinearGeluForward || kernel == KernelId::kGeluInputGradient;
}

// One rounding to bf16 of the output, one of a product that is added to it or that GELU or its
// slope stands on, whose own errors are small beside the greatest; and sums in float32.
double allowed(const Case& c, const View& output, double expected, double before, double greatest) {
  const double unit = output.dtype == DType::kBf16 ? 0x1p-8 : 0;
  const double added = output.access == Access::kUpdate ? std::abs(expected - before) : 0;
  const double of_gelu = has_gelu(c.kernel) ? std::abs(expected) + 0x1p-5 * greatest : 0;
  return unit * (std::abs(expected) + added + of_gelu) + 0x1p-19 * greatest;
}

double greatest_of(const std::vector<double>& values) {
  double greatest = 0;
  for (const double value : values) greatest = std::max(greatest, std::abs(value));
  return greatest;
}

void try_case(const KernelSet& set, const Case& c, std::mt19937_64& random) {
  SCOPED_TRACE(testing::Message() << name(c.kernel) << " " << gpu::describe(c));
  const auto device = stand_in::make_judged_device();
  const Values inputs = gpu::consistent_inputs(c, set, random);
  gpu::CaseRun run(*device, set, c, inputs);
  run.launch();
  run.finish();
  const Values got = run.outputs(), expected = gpu::reference(c, set, inputs);
  const auto operands = exec::operands_of(c, set);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool updates = operands[i].view.access == Access::kUpdate;
    const double greatest = greatest_of(expected[i]);
    for (std::size_t j = 0; j < got[i].size(); ++j) {
      const double before = updates ? inputs[i][j] : 0;
      ASSERT_NEAR(got[i][j], expected[i][j],
                  allowed(c, operands[i].view, expected[i][j], before, greatest))
          << operands[i].name << ", element " << j;
    }
  }
}

// Sizes of up to so many tokens; only the last of them go with fp8.
void try_set(const char* id, bool has_epilogues, std::int64_t least_tokens) {
  const KernelSet& set = find_kernel_set(id);
  stand_in::StandIn gpu({.has_epilogues = has_epilogues});
  std::mt19937_64 random(1);
  for (const KernelId kernel : products_of(set))
    for (const Case& c : gpu::cases_of(kernel, false))
      if (c.sizes.at("T") >= least_tokens && c.sizes.at("T") <= kTokens) try_case(set, c, random);
  EXPECT_EQ(gpu.close(), std::vector<std::string>{});
}

TEST(Fp8ProductsOnGpu, AreOfRoundedOperands) { try_set("cuda.sm90.fp8", true, 1); }

TEST(Fp8ProductsOnGpu, AreOfRoundedOperandsWhereTheLibraryLeavesEpiloguesOut) {
  try_set("cuda.sm89.fp8", false, kTokens);
}

TEST(Fp8ProductsOnGpu, AreRefusedByADeviceThatHasNone) {
  stand_in::StandIn gpu({.capability = 80});
  const auto device = stand_in::make_judged_device();
  try {
    device->check(find_kernel_set("cuda.sm89.fp8"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("needs compute capability 8.9"), std::string::npos)
        << error.what();
  }
}

// One that the sizes leave out says what it is computed in.
TEST(Fp8ProductsOnGpu, SayWhatTheyMultiply) {
  stand_in::StandIn gpu;
  const KernelSet& set = find_kernel_set("cuda.sm90.fp8");
  const auto device = stand_in::make_judged_device();
  std::mt19937_64 random(1);
  const auto kernel_of = [&](KernelId kernel, std::int64_t k) {
    const Case c{.kernel = kernel, .sizes = {{"T", 32}, {"k", k}, {"n", 96}}};
    gpu::CaseRun run(*device, set, c, gpu::consistent_inputs(c, set, random));
    return run.backend().choices().at(0).kernel;
  };
  EXPECT_NE(kernel_of(KernelId::kMatmulForward, 64).find("e4m3 x e4m3"), std::string::npos);
  EXPECT_NE(kernel_of(KernelId::kLinearInputGradient, 64).find("e5m2 x e4m3"), std::string::npos);
  EXPECT_NE(kernel_of(KernelId::kMatmulWeightGradient, 64).find("e4m3 x e5m2"), std::string::npos);
  EXPECT_NE(kernel_of(KernelId::kMatmulForward, 72).find(", bf16:"), std::string::npos);
}

}  // namespace
}  // namespace zplan
