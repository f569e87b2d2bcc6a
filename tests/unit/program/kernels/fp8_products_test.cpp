// Products of layers in fp8: which are, and the scratch that their casts take.
#include "planner/program/kernels/fp8_products.h"

#include <gtest/gtest.h>

#include <vector>

namespace zplan {
namespace {

std::vector<View> operands_of(const std::vector<Shape>& shapes) {
  std::vector<View> views(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    views[i].shape = shapes[i];
    views[i].dtype = DType::kBf16;
  }
  return views;
}

// y[T, n] = x[T, k] w[k, n]
std::vector<View> forward(std::int64_t tokens, std::int64_t k, std::int64_t n) {
  return operands_of({{tokens, k}, {k, n}, {tokens, n}});
}

TEST(Fp8Products, AreThoseOfSizesThatGoWithIt) {
  const KernelSet& set = find_kernel_set("cuda.sm90.fp8");
  const auto in_fp8 = [&](std::int64_t tokens, std::int64_t k, std::int64_t n) {
    return multiplies_in_fp8(set, KernelId::kMatmulForward, forward(tokens, k, n));
  };
  EXPECT_TRUE(in_fp8(32, 64, 96));
  EXPECT_FALSE(in_fp8(40, 64, 96));
  EXPECT_FALSE(in_fp8(32, 72, 96));
  EXPECT_FALSE(in_fp8(32, 64, 104));
  EXPECT_FALSE(multiplies_in_fp8(set, KernelId::kHeadForward, operands_of({{32, 64}, {96, 64}})));
  EXPECT_FALSE(multiplies_in_fp8(find_kernel_set("cuda.sm90.bf16"), KernelId::kMatmulForward,
                                 forward(32, 64, 96)));
}

// A byte for each element of both operands, then two scales with the maxima they are made of.
TEST(Fp8Products, LeaveCodesAndScalesInTheScratch) {
  const Fp8Scratch at = fp8_scratch({.m = 48, .n = 80, .k = 16});
  EXPECT_EQ(at.a, Bytes{0});
  EXPECT_EQ(at.b, Bytes{48 * 16});
  EXPECT_EQ(at.a_scale, Bytes{48 * 16 + 1280});
  EXPECT_EQ(at.b_scale, at.a_scale + Bytes{4096});
  EXPECT_EQ(at.rest, at.b_scale + Bytes{4096});
}

TEST(Fp8Products, NeedThatBesideTheWorkspaceOfTheSet) {
  const KernelSet& set = find_kernel_set("cuda.sm90.fp8");
  const Bytes casts = fp8_scratch({.m = 8192, .n = 28672, .k = 8192}).rest;
  EXPECT_GT(casts, Bytes{8192 * (8192 + std::int64_t{28672})});
  const auto scratch = [&](const KernelSet& of, KernelId kernel, const std::vector<View>& views) {
    return scratch_of(kernel, views, of);
  };
  const auto views = forward(8192, 8192, 28672);
  EXPECT_EQ(scratch(set, KernelId::kMatmulForward, views), casts + set.workspace);
  EXPECT_EQ(scratch(set, KernelId::kLinearInputGradient,
                    operands_of({{8192, 8192}, {28672, 8192}, {8192, 28672}})),
            casts + set.workspace);
  EXPECT_EQ(scratch(set, KernelId::kMatmulWeightGradient,
                    operands_of({{8192, 8192}, {8192, 28672}, {8192, 28672}})),
            casts + set.workspace);
  EXPECT_EQ(scratch(set, KernelId::kMatmulForward, forward(8200, 8192, 28672)), set.workspace);
  EXPECT_EQ(scratch(find_kernel_set("cuda.sm90.bf16"), KernelId::kMatmulForward, views),
            set.workspace);
  EXPECT_EQ(scratch(find_kernel_set("cpu.f32.fp8.whole"), KernelId::kMatmulForward, views),
            find_kernel_set("cpu.f32").workspace);
}

}  // namespace
}  // namespace zplan
