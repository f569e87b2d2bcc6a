#include "exec/cpu/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "exec/cpu/cpu_backend.h"
#include "planner/core/error.h"
#include "planner/program/kernel_set.h"
#include "planner/program/kernel_table.h"

namespace zplan::exec::cpu {
namespace {

TEST(Dispatch, CoversEveryRowOfTheKernelTableInOrder) {
  for (DType compute : {DType::kF32, DType::kF64}) {
    const auto table = dispatch_table(compute);
    ASSERT_EQ(std::ssize(table), kKernelCount);
    for (int i = 0; i < kKernelCount; ++i) {
      const auto id = static_cast<KernelId>(i);
      const DispatchEntry& entry = table[static_cast<std::size_t>(i)];
      EXPECT_EQ(entry.kernel, id);
      EXPECT_NE(entry.run, nullptr) << name(id);
      const int letters = static_cast<int>(std::strlen(entry.types));
      EXPECT_GE(letters, 1) << name(id);
      EXPECT_LE(letters, kernel_def(id).max_operands()) << name(id);
    }
  }
}

TEST(Dispatch, OffersExactlyTheKernelSetsThatRunOnTheCpu) {
  for (const KernelSet& set : kernel_sets())
    EXPECT_EQ(!dispatch_table(set.compute).empty(), set.runs_on_cpu) << set.id;
}

TEST(Dispatch, KernelsThatTakeScratchSayHowMuch) {
  for (const DispatchEntry& entry : dispatch_table(DType::kF32)) {
    const WorkKind kind = kernel_def(entry.kernel).kind;
    const bool needs_scratch = kind == WorkKind::kGemm || kind == WorkKind::kAttention;
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

TEST(CpuBackend, RefusesOperandsOfAnotherType) {
  EXPECT_EQ(refusal(linear_program(DType::kF32, Bytes{8 << 20}), DType::kF64),
            "forward.fc1.compute: linear_forward of a f64 kernel set does not take operand 0 as "
            "f32");
  EXPECT_THAT(refusal(linear_program(DType::kBf16, Bytes{0}), DType::kBf16),
              ::testing::HasSubstr("no kernels for bf16"));
}

}  // namespace
}  // namespace zplan::exec::cpu
