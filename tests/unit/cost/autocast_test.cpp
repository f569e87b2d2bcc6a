#include "planner/cost/autocast.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

View matrix(std::int64_t rows, std::int64_t columns, Access access) {
  View view;
  view.access = access;
  view.dtype = DType::kBf16;
  view.shape = Shape{rows, columns};
  return view;
}

// Read in fp32, 4 bytes, and written in 16 bits, 2, before the product takes it; so again where a
// layer is computed again.
TEST(Autocast, AWeightIsCastBeforeItsProduct) {
  const View operands[] = {matrix(8, 1000, Access::kRead), matrix(1000, 500, Access::kRead),
                           matrix(8, 500, Access::kWrite)};
  Node node{.kind = OpKind::kKernel, .kernel = KernelId::kMatmulForward};
  for (const Phase phase : {Phase::kForward, Phase::kRecompute}) {
    node.role.phase = phase;
    EXPECT_EQ(autocast_bytes(node, operands).value, 500'000 * (4 + 2));
  }
  node.kernel = KernelId::kHeadForward;
  EXPECT_EQ(autocast_bytes(node, operands).value, 500'000 * (4 + 2));
  node.kernel = KernelId::kGeluForward;
  EXPECT_EQ(autocast_bytes(node, operands).value, 0);
}

// The product gives 16 bits, 2 bytes, which are cast to 4; micro-batches from the second on read
// that and the sum, and write it.
TEST(Autocast, AWeightGradientIsCastAndAddedUpInFp32) {
  Node node{.kind = OpKind::kKernel, .kernel = KernelId::kMatmulWeightGradient};
  node.role = {Phase::kBackward, Part::kFc1, Action::kWeightGradient};
  const auto bytes = [&](Access access) {
    const View operands[] = {matrix(8, 1000, Access::kRead), matrix(8, 500, Access::kRead),
                             matrix(1000, 500, access)};
    return autocast_bytes(node, operands).value;
  };
  EXPECT_EQ(bytes(Access::kWrite), 500'000 * (2 + 4));
  EXPECT_EQ(bytes(Access::kUpdate), 500'000 * (2 + 4 + 4 + 4 + 4));
}

// [PyTorch] layer_norm and softmax give fp32; products take 16 bits.
TEST(Autocast, TheResidualStreamAndProbabilitiesAreInFp32) {
  EXPECT_DOUBLE_EQ(autocast_traffic(KernelId::kResidualAdd), (4 + 2 + 4) / 6.0);
  EXPECT_DOUBLE_EQ(autocast_traffic(KernelId::kLayerNormForward), (4 + 2) / 4.0);
  EXPECT_DOUBLE_EQ(autocast_traffic(KernelId::kResidualRmsNormForward), (4 + 2 + 4 + 2) / 8.0);
  EXPECT_DOUBLE_EQ(autocast_traffic(KernelId::kRmsNormBackward), (2 + 4 + 4 + 4 + 2) / 8.0);
  EXPECT_DOUBLE_EQ(autocast_traffic(KernelId::kSoftmaxForward), (2 + 4 + 2) / 4.0);
  EXPECT_DOUBLE_EQ(autocast_traffic(KernelId::kSoftmaxBackward), (2 + 4 + 2) / 6.0);
  EXPECT_DOUBLE_EQ(autocast_traffic(KernelId::kGeluForward), 1);
}

}  // namespace
}  // namespace zplan
