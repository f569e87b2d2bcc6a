#include "exec/cpu/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "exec/cpu/cpu_backend.h"
#include "exec/kernel_checks.h"
#include "planner/core/error.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::exec::cpu {
namespace {

bool is_declared(KernelId kernel) {
  return std::ranges::any_of(kernel_sets(), [&](const KernelSet& set) {
    return set.runs_on == RunsOn::kCpu && declares(set, kernel);
  });
}

TEST(Dispatch, CoversExactlyWhatTheKernelSetsDeclare) {
  for (DType compute : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16}) {
    const auto table = dispatch_table(compute);
    for (int i = 0; i < kKernelCount; ++i) {
      const auto id = static_cast<KernelId>(i);
      const DispatchEntry& entry = table[static_cast<std::size_t>(i)];
      EXPECT_EQ(entry.run != nullptr, is_declared(id)) << name(id);
      EXPECT_TRUE(entry.run == nullptr || entry.kernel == id) << name(id);
    }
  }
}

// The sets and kernels that no backend has.
TEST(Dispatch, LeavesOutWhatIsPlannedOnly) {
  std::string left_out;
  for (const KernelSet& set : kernel_sets())
    if (set.runs_on == RunsOn::kNowhere) left_out += " " + std::string(set.id);
  for (int i = 0; i < kKernelCount; ++i)
    if (is_planned_only(static_cast<KernelId>(i), RunsOn::kCpu))
      left_out += " " + std::string(name(static_cast<KernelId>(i)));
  GTEST_SKIP() << "planned and simulated only:" << left_out;
}

TEST(Dispatch, OffersExactlyTheComputeTypesOfTheKernelSetsThatRunOnTheCpu) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    bool is_used = false;
    for (const KernelSet& set : kernel_sets())
      is_used = is_used || (set.runs_on == RunsOn::kCpu && set.compute == type);
    EXPECT_EQ(!dispatch_table(type).empty(), is_used) << name(type);
  }
}

TEST(Dispatch, RefusesTypesOfOtherComputeTypes) {
  EXPECT_FALSE(fits_letter('c', DType::kF32, DType::kBf16));
  EXPECT_FALSE(fits_letter('t', DType::kBf16, DType::kBf16));
  EXPECT_FALSE(fits_letter('g', DType::kF16, DType::kBf16));
  EXPECT_FALSE(fits_letter('g', DType::kF32, DType::kF64));
  EXPECT_FALSE(fits_letter('o', DType::kF32, DType::kF64));
  EXPECT_FALSE(fits_letter('o', DType::kF64, DType::kF32));
  EXPECT_FALSE(fits_letter('i', DType::kF32, DType::kF32));
  EXPECT_FALSE(fits_letter('o', DType::kI32, DType::kF32));
  EXPECT_FALSE(fits_letter('d', DType::kF32, DType::kF32));
  EXPECT_FALSE(fits_letter('k', DType::kI32, DType::kF32));
}

TEST(Dispatch, TakesTheTypesOfMixedPrecision) {
  for (const DType compute : {DType::kF32, DType::kBf16, DType::kF16}) {
    EXPECT_TRUE(fits_letter('c', compute, compute)) << name(compute);
    EXPECT_TRUE(fits_letter('t', DType::kF32, compute)) << name(compute);
    EXPECT_TRUE(fits_letter('*', DType::kF64, compute)) << name(compute);
    for (const DType type : {compute, DType::kF32})
      EXPECT_TRUE(fits_letter('g', type, compute)) << name(compute) << " " << name(type);
    for (const DType type : {DType::kF32, DType::kBf16, DType::kF16})
      for (const char state : {'o', 'v', 'p', 'q'})
        EXPECT_TRUE(fits_letter(state, type, compute)) << name(compute) << " " << name(type);
  }
  for (const char letter : {'c', 't', 'g', 'o', 'q', 'd'})
    EXPECT_TRUE(fits_letter(letter, DType::kF64, DType::kF64)) << letter;
}

TEST(Dispatch, KernelsThatTakeScratchSayHowMuch) {
  for (const DispatchEntry& entry : dispatch_table(DType::kF32)) {
    if (entry.run == nullptr) continue;
    const KernelDef& row = kernel_def(entry.kernel);
    const bool multiplies = row.kind == WorkKind::kGemm || row.kind == WorkKind::kAttention;
    const bool needs_scratch = multiplies && row.access.back() == 's';
    EXPECT_EQ(entry.prepare != nullptr, needs_scratch) << name(entry.kernel);
  }
}

// One product node: x[4,8] w[8,16] bias[16] y[4,16] scratch.
Program linear_program(DType type, Bytes scratch) {
  Program p;
  p.blocks.push_back({});
  const auto add = [&p, type](Access access, Shape shape) {
    View view;
    view.dtype = type;
    view.access = access;
    view.shape = shape;
    p.views.push_back(view);
  };
  add(Access::kRead, {4, 8});
  add(Access::kRead, {8, 16});
  add(Access::kRead, {16});
  add(Access::kWrite, {4, 16});
  add(Access::kScratch, {scratch.value / size_of(type).value});
  Node node;
  node.role = {Phase::kForward, Part::kFc1, Action::kCompute};
  node.kind = OpKind::kKernel;
  node.kernel = KernelId::kLinearForward;
  node.operands_end = 5;
  p.nodes.push_back(node);
  return p;
}

std::string refusal(const Program& program, DType compute) {
  try {
    CpuBackend(program, compute, 1);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(CpuBackend, RefusesScratchThatIsTooSmallBeforeTheFirstStep) {
  // float64 runs on the blocked product, which packs into scratch.
  EXPECT_EQ(refusal(linear_program(DType::kF64, Bytes{8 << 20}), DType::kF64), "");
  EXPECT_THAT(refusal(linear_program(DType::kF64, Bytes{8}), DType::kF64),
              ::testing::MatchesRegex("forward.fc1.compute: linear_forward needs [0-9]+ bytes of "
                                      "scratch, the program gives it 8"));
}

TEST(CpuBackend, LeavesNodesAloneThatAnotherDeviceRuns) {
  const Program program = linear_program(DType::kF64, Bytes{8});
  CpuBackend(program, DType::kF64, 1, [](const Node& node) { return is_host(node.lane); });
  EXPECT_THROW(CpuBackend(program, DType::kF64, 1, [](const Node&) { return true; }), Error);
}

TEST(CpuBackend, RefusesOperandsOfAnotherType) {
  EXPECT_EQ(refusal(linear_program(DType::kF32, Bytes{8 << 20}), DType::kF64),
            "forward.fc1.compute: linear_forward of a f64 kernel set does not take operand 0 as "
            "f32");
  EXPECT_THAT(refusal(linear_program(DType::kI32, Bytes{0}), DType::kI32),
              ::testing::HasSubstr("no kernels for i32"));
}

}  // namespace
}  // namespace zplan::exec::cpu
