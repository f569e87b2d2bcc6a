#include "planner/cost/autocast.h"

#include "planner/program/kernels/kernel_table.h"

namespace zplan {
namespace {

constexpr std::int64_t kHalf = 2, kFull = 4;           // bytes of an element
constexpr std::int64_t kCast = kHalf + kFull;          // reads one, writes the other
constexpr std::int64_t kAddition = kFull + 2 * kFull;  // reads the gradient, updates the sum

bool takes_weight(const Node& node) {
  const bool forward = node.role.phase == Phase::kForward || node.role.phase == Phase::kRecompute;
  if (!forward || node.kind != OpKind::kKernel) return false;
  return kernel_def(node.kernel).layer_product || node.kernel == KernelId::kHeadForward;
}

}  // namespace

Bytes autocast_bytes(const Node& node, std::span<const View> operands) {
  if (takes_weight(node)) return {kCast * operands[1].shape.elements()};
  if (node.role.action != Action::kWeightGradient || operands.size() < 3) return {};
  const View& gradient = operands[2];
  const bool adds = gradient.access == Access::kUpdate;
  return {(kCast + (adds ? kAddition : 0)) * gradient.shape.elements()};
}

// [derived] Bytes per element in fp32 over those in 16 bits, each operand once:
//   embedding       4 + 4 for 2 + 2
//   sum             x 4, y 2, their sum 4 for 2 + 2 + 2
//   norm            x 4, its result in 16 bits for the product 2 for 2 + 2; with a sum before it
//                   4 + 2 + 4 + 2 for 8; its gradient dy 2, x 4, dx 4 + 4 and a copy in 16 bits for
//                   the product before it 2 for 2 + 2 + 2 + 2
//   softmax         scores 2, its result 4 and a copy in 16 bits 2 for 2 + 2; its gradient
//                   2 + 4 + 2 for 2 + 2 + 2
double autocast_traffic(KernelId kernel) {
  switch (kernel) {
    case KernelId::kEmbeddingForward:
    case KernelId::kLayerNormBackward:
    case KernelId::kRmsNormBackward:
    case KernelId::kSoftmaxForward:
      return 2;
    case KernelId::kLayerNormForward:
    case KernelId::kRmsNormForward:
    case KernelId::kResidualLayerNormForward:
    case KernelId::kResidualRmsNormForward:
      return 1.5;
    case KernelId::kResidualAdd:
    case KernelId::kBiasResidualAdd:
      return 10.0 / 6;
    case KernelId::kSoftmaxBackward:
      return 8.0 / 6;
    default:
      return 1;
  }
}

}  // namespace zplan
