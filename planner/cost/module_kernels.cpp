#include "planner/cost/module_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "planner/program/kernels/kernel_table.h"

namespace zplan {
namespace {

struct Row {
  KernelId kernel;
  ModuleKernels has;
};

// Megatron-LM's layers in PyTorch, with apex and Transformer Engine for norms and softmax and with
// scripted GELU and residual sums [MegatronDeepSpeed megatron/model/transformer.py, fused_*.py],
// [MegatronCore transformer, tensor_parallel]. A linear layer is an autograd function of the tensor
// parallel region, a transposition, a product and a view; dropout of scores stands in a fork of the
// generator, which gets and sets its state (12 calls). A norm's gradient reads its operands once
// more for gains and biases. The loss converts to fp32, subtracts the maximum, takes exponents,
// sums, divides, and scales the gradient: 52 bytes per logit where 4 are compulsory
// [MegatronCore tensor_parallel/cross_entropy.py]. A layer of experts scores in fp32, takes the
// largest, and scatters them to a mask of all experts; of the mask it sums the tokens of each
// expert, gathers these sums of all ranks, and adds them up by rank and by expert; then it permutes
// tokens and their probabilities, exchanges both, and sorts what comes by expert
// [MegatronCore transformer/moe/moe_utils.py, token_dispatcher.py]. Heads of latent attention are
// split, rotated in part by slices, products, sums and concatenations, and put together again
// [MegatronCore transformer/multi_latent_attention.py]: of 192 elements of a query 64 are rotated,
// at 11 elements moved for each, beside the 1,088 of splitting and joining where 960 are
// compulsory.
constexpr Row kMegatron[] = {
    {KernelId::kEmbeddingForward, {6, 3, 1.5}},
    {KernelId::kEmbeddingBackward, {8, 3, 1}},
    {KernelId::kLayerNormForward, {2, 1, 1}},
    {KernelId::kLayerNormBackward, {6, 3, 5.0 / 3}},
    {KernelId::kRmsNormForward, {2, 1, 1}},
    {KernelId::kRmsNormBackward, {5, 2, 5.0 / 3}},
    {KernelId::kResidualLayerNormForward, {5, 2, 1.25}},
    {KernelId::kResidualRmsNormForward, {5, 2, 1.25}},
    {KernelId::kLinearForward, {5, 1, 1}},
    {KernelId::kMatmulForward, {5, 1, 1}},
    {KernelId::kLinearGeluForward, {7, 2, 1}},
    {KernelId::kLinearInputGradient, {5, 1, 1}},
    {KernelId::kGeluInputGradient, {8, 2, 1}},
    {KernelId::kLinearWeightGradient, {7, 2, 1}},
    {KernelId::kMatmulWeightGradient, {7, 1, 1}},
    {KernelId::kBiasGradient, {3, 2, 1}},
    {KernelId::kRope, {6, 2, 1}},
    {KernelId::kAttentionForward, {20, 1, 1}},
    {KernelId::kAttentionBackward, {12, 2, 1}},
    {KernelId::kAttentionScores, {10, 1, 1}},
    {KernelId::kAttentionScoresGradient, {14, 3, 1}},
    {KernelId::kSoftmaxForward, {3, 1, 1}},
    {KernelId::kSoftmaxBackward, {3, 1, 1}},
    {KernelId::kAttentionContext, {8, 2, 1}},
    {KernelId::kAttentionContextGradient, {12, 3, 1}},
    {KernelId::kDropoutForward, {14, 1, 1}},
    {KernelId::kDropoutBackward, {3, 1, 1}},
    {KernelId::kDropoutResidualAdd, {4, 1, 1}},
    {KernelId::kGeluForward, {2, 1, 1}},
    {KernelId::kGeluBackward, {3, 1, 1}},
    {KernelId::kSwigluForward, {3, 1, 1}},
    {KernelId::kSwigluBackward, {3, 1, 1}},
    {KernelId::kHeadForward, {5, 1, 1}},
    {KernelId::kHeadInputGradient, {5, 1, 1}},
    {KernelId::kHeadWeightGradient, {6, 1, 1}},
    {KernelId::kCrossEntropy, {24, 16, 13}},
    {KernelId::kCrossEntropyStatistics, {12, 8, 6.5}},
    {KernelId::kCrossEntropyParallel, {12, 8, 6.5}},
    {KernelId::kHeadNormForward, {6, 2, 1}},
    {KernelId::kHeadNormBackward, {10, 4, 5.0 / 3}},
    {KernelId::kLatentHeadsForward, {45, 24, 1.9}},
    {KernelId::kLatentHeadsBackward, {45, 24, 1.9}},
    {KernelId::kRouterForward, {8, 2, 1}},
    {KernelId::kRouterLinearForward, {8, 2, 1}},
    {KernelId::kChooseExperts, {24, 14, 1}},
    {KernelId::kChooseExpertsBackward, {10, 8, 1}},
    {KernelId::kBalanceExperts, {10, 8, 1}},
    {KernelId::kPlaceRows, {24, 12, 1}},
    {KernelId::kDispatchRows, {12, 5, 1}},
    {KernelId::kCombineRows, {10, 5, 1}},
    {KernelId::kCombineRowsBackward, {10, 5, 1}},
    {KernelId::kGroupedForward, {8, 1, 1}},
    {KernelId::kGroupedInputGradient, {4, 1, 1}},
    {KernelId::kGroupedWeightGradient, {6, 1, 1}},
};

// Hugging Face's modules without fused kernels, in 16 bits [Transformers
// models/llama/modeling_llama.py, loss/loss_utils.py], [PyTorch].
//   RMSNorm   to fp32, square, mean, sum with epsilon, root, product, to 16 bits, gain: 36 bytes
//             per element where 4 are compulsory; autograd gives 80 for 8
//   RoPE      of queries and of keys each a product, a negated half, a concatenation, a product and
//             a sum: 20 bytes for 4
//   SwiGLU    SiLU and a product: 10 bytes for 6; 18 for 10 in backward
//   softmax   in fp32, scaled and masked by kernels of their own: 20 bytes for 4; 22 for 6
//   loss      logits in fp32, log-softmax, and the gradients of both: 36 bytes for 4
//   clipping  gradients are read for their norm, then scaled in place: 12 bytes for 4
//   experts   products of all in one kernel, torch._grouped_mm; counts, offsets and the order of
//             the rows by operators of their own [torchtitan models/moe.py]
constexpr Row kEager[] = {
    {KernelId::kEmbeddingForward, {2, 1, 1}},
    {KernelId::kEmbeddingBackward, {4, 3, 1}},
    {KernelId::kLayerNormForward, {2, 1, 1}},
    {KernelId::kLayerNormBackward, {4, 3, 5.0 / 3}},
    {KernelId::kRmsNormForward, {8, 8, 9}},
    {KernelId::kRmsNormBackward, {20, 14, 10}},
    {KernelId::kResidualLayerNormForward, {3, 2, 1.25}},
    {KernelId::kResidualRmsNormForward, {9, 9, 5.25}},
    {KernelId::kHeadNormForward, {16, 16, 9}},
    {KernelId::kHeadNormBackward, {40, 28, 10}},
    {KernelId::kLinearForward, {3, 1, 1}},
    {KernelId::kMatmulForward, {3, 1, 1}},
    {KernelId::kLinearGeluForward, {4, 2, 1}},
    {KernelId::kLinearInputGradient, {4, 1, 1}},
    {KernelId::kGeluInputGradient, {6, 2, 1}},
    {KernelId::kLinearWeightGradient, {6, 2, 1}},
    {KernelId::kMatmulWeightGradient, {5, 1, 1}},
    {KernelId::kBiasGradient, {2, 1, 1}},
    {KernelId::kRope, {16, 10, 5}},
    {KernelId::kAttentionForward, {12, 2, 1}},
    {KernelId::kAttentionBackward, {12, 3, 1}},
    {KernelId::kAttentionScores, {10, 2, 1}},
    {KernelId::kAttentionScoresGradient, {14, 3, 1}},
    {KernelId::kSoftmaxForward, {4, 4, 5}},
    {KernelId::kSoftmaxBackward, {4, 3, 22.0 / 6}},
    {KernelId::kAttentionContext, {6, 2, 1}},
    {KernelId::kAttentionContextGradient, {10, 3, 1}},
    {KernelId::kDropoutForward, {1, 1, 1}},
    {KernelId::kDropoutBackward, {2, 1, 1}},
    {KernelId::kDropoutResidualAdd, {2, 2, 11.0 / 7}},
    {KernelId::kSwigluForward, {2, 2, 10.0 / 6}},
    {KernelId::kSwigluBackward, {5, 3, 1.8}},
    {KernelId::kHeadForward, {3, 1, 1}},
    {KernelId::kHeadInputGradient, {4, 1, 1}},
    {KernelId::kHeadWeightGradient, {5, 1, 1}},
    {KernelId::kCrossEntropy, {14, 8, 9}},
    {KernelId::kCrossEntropyStatistics, {7, 4, 4.5}},
    {KernelId::kCrossEntropyParallel, {7, 4, 4.5}},
    {KernelId::kSumSquares, {2, 2, 3}},
    {KernelId::kRouterForward, {3, 1, 1}},
    {KernelId::kRouterLinearForward, {3, 1, 1}},
    {KernelId::kChooseExperts, {12, 8, 1}},
    {KernelId::kChooseExpertsBackward, {12, 8, 1}},
    {KernelId::kBalanceExperts, {10, 8, 1}},
    {KernelId::kPlaceRows, {16, 10, 1}},
    {KernelId::kDispatchRows, {10, 4, 1}},
    {KernelId::kCombineRows, {10, 4, 1}},
    {KernelId::kCombineRowsBackward, {10, 4, 1}},
    {KernelId::kGroupedForward, {6, 2, 1}},
    {KernelId::kGroupedInputGradient, {6, 2, 1}},
    {KernelId::kGroupedWeightGradient, {6, 2, 1}},
};

// TorchInductor fuses what is pointwise with its neighbours [PyTorch].
//   loss      a reduction is a kernel: logits are read for their largest, for their sum and for
//             the gradient, which is written: 4 passes for 2
//   clipping  as in eager mode: clip_grad_norm_ is not compiled
//   products  an activation or the gradient of a bias is a kernel beside its product
//             (epilogue_bytes())
constexpr Row kCompiled[] = {
    {KernelId::kSumSquares, {2, 2, 3}},
    {KernelId::kCrossEntropy, {1, 1, 2}},
    {KernelId::kCrossEntropyStatistics, {1, 1, 2}},
    {KernelId::kCrossEntropyParallel, {1, 1, 2}},
    {KernelId::kLinearGeluForward, {2, 2, 1}},
    {KernelId::kGeluInputGradient, {2, 2, 1}},
    {KernelId::kLinearWeightGradient, {2, 2, 1}},
};

using Table = std::array<ModuleKernels, static_cast<std::size_t>(kKernelCount)>;

// Codes are written and read by the products whose operands they are, but of a native program.
constexpr Row kOfProducts[] = {
    {KernelId::kQuantizeRows, {0, 0, 1}},
    {KernelId::kDequantizeRows, {0, 0, 1}},
};

constexpr Table table_of(std::span<const Row> rows) {
  Table table;
  table.fill({.calls = 1, .launches = 1, .traffic = 1});
  if (rows.empty()) return table;
  for (const Row& row : kOfProducts) table[static_cast<std::size_t>(row.kernel)] = row.has;
  for (const Row& row : rows) table[static_cast<std::size_t>(row.kernel)] = row.has;
  return table;
}

}  // namespace

ModuleKernels module_kernels(KernelId kernel, Modules modules) {
  static constexpr std::array<Table, 4> kTables{table_of({}), table_of(kMegatron), table_of(kEager),
                                                table_of(kCompiled)};
  return kTables[static_cast<std::size_t>(modules)][static_cast<std::size_t>(kernel)];
}

double host_calls(const Node& node, Modules modules) {
  if (node.kind == OpKind::kKernel) return module_kernels(node.kernel, modules).calls;
  const bool meets = node.kind == OpKind::kCollective || is_transfer(node.kind);
  if (modules == Modules::kNative || !meets) return 1;
  // [PyTorch torch/distributed/fsdp/_fully_shard] Hooks of a unit, copies in and out, events of two
  // streams; [MegatronCore] one wrapper in the library's call otherwise.
  constexpr double kOfUnit = 20, kOfLibrary = 4;
  const bool of_unit = node.lane == Lane::kCommGather || node.role.action == Action::kReduce;
  return of_unit && modules != Modules::kMegatron ? kOfUnit : kOfLibrary;
}

// [PyTorch aten/src/ATen/native/cuda/Blas.cpp, tools/autograd/derivatives.yaml] A linear layer is a
// product that adds the bias; the activation reads what it wrote and writes its own, the gradient
// of the activation reads that of the product and the former input, and the gradient of the bias
// is a sum over the output's. TorchInductor calls the same library for products.
Bytes epilogue_bytes(const Node& node, std::span<const View> operands, Modules modules) {
  if (modules == Modules::kNative || node.kind != OpKind::kKernel) return {};
  const auto moved = [&](int operand, int times) {
    return operands[static_cast<std::size_t>(operand)].bytes() * times;
  };
  constexpr int kSum = 3, kActivated = 4, kGradientOut = 3, kGradientIn = 1;
  switch (node.kernel) {
    case KernelId::kLinearGeluForward:
      return moved(kSum, 1) + moved(kActivated, 1);
    case KernelId::kGeluInputGradient:
      return moved(kGradientOut, 3);
    case KernelId::kLinearWeightGradient:
      return moved(kGradientIn, 1);
    default:
      return {};
  }
}

namespace {

// The operand with the rows of a kernel that brings them; none: it does not.
std::optional<std::size_t> rows_operand(KernelId kernel) {
  constexpr std::size_t kSent = 3, kCombined = 0, kGradients = 5;
  switch (kernel) {
    case KernelId::kDispatchRows:
      return kSent;
    case KernelId::kCombineRows:
      return kCombined;
    case KernelId::kCombineRowsBackward:
      return kGradients;
    default:
      return std::nullopt;
  }
}

// The operand with the matrices of all experts, of products of these.
std::optional<std::size_t> experts_operand(KernelId kernel) {
  constexpr std::size_t kWeight = 1, kGradient = 3;
  switch (kernel) {
    case KernelId::kGroupedForward:
    case KernelId::kGroupedLinearForward:
    case KernelId::kGroupedInputGradient:
      return kWeight;
    case KernelId::kGroupedWeightGradient:
    case KernelId::kGroupedLinearWeightGradient:
      return kGradient;
    default:
      return std::nullopt;
  }
}

// The operand with one row for each token.
std::size_t tokens_operand(KernelId kernel) { return kernel == KernelId::kCombineRows ? 2 : 0; }

}  // namespace

Bytes sorting_bytes(const Node& node, std::span<const View> operands, const TokenTravel& travel,
                    Modules modules) {
  if (modules == Modules::kNative || node.kind != OpKind::kKernel) return {};
  const auto rows = rows_operand(node.kernel);
  if (!rows) return {};
  if (travel.ranks == 0) return travel.experts > 1 ? operands[*rows].bytes() * 2 : Bytes{};
  const Bytes tokens = operands[tokens_operand(node.kernel)].bytes();
  return {std::llround(static_cast<double>(tokens.value) * std::max(0.0, travel.ranks - 1))};
}

std::int64_t products_launched(const Node& node, std::span<const View> operands, Modules modules) {
  if (modules != Modules::kMegatron || node.kind != OpKind::kKernel) return 0;
  const auto matrices = experts_operand(node.kernel);
  return matrices ? operands[*matrices].shape[0] : 0;
}

Bytes accumulation_bytes(const Node& node, std::span<const View> operands) {
  if (node.role.action != Action::kWeightGradient || operands.size() < 3) return {};
  const View& sum = operands[2];
  if (sum.access != Access::kUpdate) return {};
  return size_of(operands[0].dtype) * sum.shape.elements() + sum.bytes() * 2;
}

}  // namespace zplan
