#include "planner/cost/module_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"
#include "models/model_config.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/kernel_time.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/kernels/kernel_table.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

constexpr std::int64_t kMicrosecond = 1'000'000;  // ps

constexpr KernelId kernel_at(int i) { return static_cast<KernelId>(i); }

// [Transformers models/llama/modeling_llama.py: LlamaRMSNorm] to, pow, mean, +, rsqrt, *, to, *; in
// bytes per element 2 + 4, 4 + 4, 4, 4 + 4, 4 + 2 and 2 + 2, where a fused one has 2 + 2.
TEST(ModuleKernels, LlamasNormIsEightKernelsThatMoveNineTimesTheBytesOfAFusedOne) {
  const ModuleKernels norm = module_kernels(KernelId::kRmsNormForward, Modules::kEager);
  EXPECT_EQ(norm.launches, 8);
  EXPECT_EQ(norm.calls, 8);
  EXPECT_DOUBLE_EQ(norm.traffic, (6 + 8 + 4 + 8 + 6 + 4) / 4.0);
}

// [MegatronCore tensor_parallel/cross_entropy.py] To fp32, maximum, difference, exponents, their
// sum, quotients, the gradient's scale, to 16 bits; a fused kernel reads and writes 16 bits once.
TEST(ModuleKernels, MegatronsLossMoves52BytesPerLogit) {
  const ModuleKernels loss = module_kernels(KernelId::kCrossEntropy, Modules::kMegatron);
  EXPECT_DOUBLE_EQ(loss.traffic, (6 + 4 + 8 + 8 + 4 + 8 + 8 + 6) / 4.0);
}

TEST(ModuleKernels, ANativeProgramRunsTheKernelsOfTheJob) {
  for (int i = 0; i < kKernelCount; ++i) {
    const ModuleKernels has = module_kernels(kernel_at(i), Modules::kNative);
    EXPECT_EQ(has.calls, 1);
    EXPECT_EQ(has.launches, 1);
    EXPECT_EQ(has.traffic, 1);
  }
}

// TorchInductor's reductions are kernels: the loss reads its logits for the largest, for the sum
// and for the gradient, whether tensor parallel ranks work on it or not. Nothing is fused into a
// product. What is pointwise is one kernel.
TEST(ModuleKernels, ACompilerOfLayersLeavesReductionsAndProductsAlone) {
  using enum KernelId;
  for (const KernelId loss : {kCrossEntropy, kCrossEntropyStatistics, kCrossEntropyParallel}) {
    EXPECT_EQ(module_kernels(loss, Modules::kCompiled).traffic, (2 + 2 + 2 + 2) / 4.0);
    EXPECT_EQ(module_kernels(loss, Modules::kCompiled).launches, 1);
  }
  for (const KernelId product : {kLinearGeluForward, kGeluInputGradient, kLinearWeightGradient})
    EXPECT_EQ(module_kernels(product, Modules::kCompiled).launches, 2);
  for (const KernelId pointwise : {kSwigluForward, kRmsNormForward, kResidualAdd, kRope}) {
    EXPECT_EQ(module_kernels(pointwise, Modules::kCompiled).launches, 1);
    EXPECT_EQ(module_kernels(pointwise, Modules::kCompiled).traffic, 1);
  }
}

// [PyTorch] clip_grad_norm_ reads the gradients for their norm, then multiplies them in place.
TEST(ModuleKernels, PyTorchClipsGradientsByAPassOfItsOwn) {
  for (const Modules modules : {Modules::kEager, Modules::kCompiled}) {
    const ModuleKernels has = module_kernels(KernelId::kSumSquares, modules);
    EXPECT_EQ(has.traffic, (4 + 4 + 4) / 4.0);
    EXPECT_EQ(has.launches, 2) << "the norm, then the scaling";
  }
}

// But for codes, which the products write and read whose operands they are.
TEST(ModuleKernels, NoModuleDispatchesOrMovesLessThanTheJob) {
  for (int i = 0; i < kKernelCount; ++i) {
    if (kernel_at(i) == KernelId::kQuantizeRows || kernel_at(i) == KernelId::kDequantizeRows)
      continue;
    for (const Modules modules : {Modules::kMegatron, Modules::kEager}) {
      const ModuleKernels has = module_kernels(kernel_at(i), modules);
      EXPECT_GE(has.calls, 1);
      EXPECT_GE(has.launches, 1);
      EXPECT_GE(has.traffic, 1);
    }
  }
}

OpCost cost_of(KernelId kernel, Phase phase, const Cluster& cluster, LaunchMode launch) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 4);
  Job job = make_job(program);
  job.launch = launch;
  Node& node = job.classes[0].program.nodes[0];
  node.role.phase = phase;
  node.kernel = kernel;
  return CostModel(job, cluster).costs(0).front();
}

// An operator takes 10 us; in backward the engine takes half of that. As a graph it is launched in
// 1 us, and the host has nothing to do besides.
TEST(ModuleKernels, TheHostDispatchesEveryOperatorUnlessAGraphDoes) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  cluster.node.device.graph_launch_overhead = {1e-6};
  cluster.stack.modules = Modules::kMegatron;
  cluster.stack.host_forward = 10e-6;
  cluster.stack.host_step = 1e-3;
  const auto launch_us = [&](Phase phase, LaunchMode launch) {
    return cost_of(KernelId::kFillZero, phase, cluster, launch).launch.value / kMicrosecond;
  };
  EXPECT_EQ(launch_us(Phase::kForward, LaunchMode::kStream), 10 + 1000);
  EXPECT_EQ(launch_us(Phase::kBackward, LaunchMode::kStream), 5 + 1000);
  EXPECT_EQ(launch_us(Phase::kForward, LaunchMode::kGraph), 1);
  EXPECT_EQ(launch_us(Phase::kBackward, LaunchMode::kGraph), 1);
  EXPECT_EQ(cost_of(KernelId::kFillZero, Phase::kForward, cluster, LaunchMode::kGraph).host_waits,
            HostWait::kNothing);
}

TEST(ModuleKernels, TrafficAndLaunchesFollowTheModules) {
  DeviceProfile device = small_machine().node.device;
  device.sm_count = 100;
  device.gemm_overhead = {2e-6};
  const Demand demand{.bytes = Bytes{40'000'000}};
  const auto time = [&](Modules modules) {
    return kernel_time(KernelId::kRmsNormForward, demand, "fp32", device, {.modules = modules})
        .time.value;
  };
  const double overhead = device.gemm_overhead.value;
  EXPECT_NEAR(time(Modules::kEager) - 8 * overhead, 9 * (time(Modules::kNative) - overhead), 1e-12);
}

// A layer of 100 tokens from 20 to 80 features in 16 bits. GELU reads and writes 8,000 numbers; its
// gradient reads those of the product and of its input and writes 8,000; a bias' reads 8,000.
TEST(ModuleKernels, WhatACompiledKernelHasInsideAProductPyTorchRunsBesideIt) {
  const auto view = [](std::int64_t rows, std::int64_t columns) {
    View result;
    result.dtype = DType::kBf16;
    result.shape = Shape{rows, columns};
    return result;
  };
  const View narrow = view(100, 20), wide = view(100, 80), weight = view(20, 80),
             bias = view(1, 80);
  const auto bytes = [](KernelId kernel, Modules modules, const std::vector<View>& operands) {
    return epilogue_bytes({.kind = OpKind::kKernel, .kernel = kernel}, operands, modules).value;
  };
  const std::vector<View> forward{narrow, weight, bias, wide, wide, narrow};
  const std::vector<View> input_gradient{narrow, weight, wide, wide, narrow};
  const std::vector<View> weight_gradient{narrow, wide, weight, bias, narrow};
  for (const Modules modules : {Modules::kMegatron, Modules::kEager, Modules::kCompiled}) {
    EXPECT_EQ(bytes(KernelId::kLinearGeluForward, modules, forward), 2 * 16'000);
    EXPECT_EQ(bytes(KernelId::kGeluInputGradient, modules, input_gradient), 3 * 16'000);
    EXPECT_EQ(bytes(KernelId::kLinearWeightGradient, modules, weight_gradient), 16'000);
    EXPECT_EQ(bytes(KernelId::kLinearForward, modules, forward), 0) << "it adds the bias itself";
  }
  EXPECT_EQ(bytes(KernelId::kLinearGeluForward, Modules::kNative, forward), 0);
}

// [derived] What the device does besides is the same: the Job has one kernel for each.
TEST(ModuleKernels, AnActivationBesideItsProductTakesAKernelOfItsOwn) {
  Cluster cluster = load_cluster("dgx-a100");
  ModelConfig model;
  model.layers = 1;
  model.hidden = 512;
  model.heads = model.kv_heads = 8;
  model.ffn = 2048;
  model.vocab = 1024;
  model.sequence = 512;
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 1, .micro_batch = 1, .sequence = 512};
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  const auto seconds = [&](Modules modules) {
    cluster.stack.modules = modules;
    const CostModel costs(job, cluster);
    const std::vector<Node>& nodes = job.classes[0].program.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].kernel == KernelId::kLinearGeluForward)
        return to_seconds(costs.costs(0)[i].fixed).value;
    ADD_FAILURE() << "no product with an activation";
    return 0.0;
  };
  const Bytes read_and_written{512 * 2048 * 2 * 2};
  const DeviceProfile& device = cluster.node.device;
  EXPECT_NEAR(seconds(Modules::kCompiled) - seconds(Modules::kNative),
              stream_time(read_and_written, device).time.value + device.gemm_overhead.value, 1e-11);
}

// A gradient of 1000 x 1000 in 16 bits: the result of autograd is read, the sum read and written.
TEST(ModuleKernels, ASumOfItsOwnReadsTheGradientAndUpdatesTheSum) {
  View x, dy, sum;
  for (View* view : {&x, &dy, &sum}) {
    view->dtype = DType::kBf16;
    view->shape = Shape{1000, 1000};
  }
  sum.access = Access::kUpdate;
  Node node{.kind = OpKind::kKernel, .kernel = KernelId::kLinearWeightGradient};
  node.role.action = Action::kWeightGradient;
  const auto bytes = [&] {
    const View views[] = {x, dy, sum};
    return accumulation_bytes(node, views).value;
  };
  EXPECT_EQ(bytes(), 6'000'000);
  sum.dtype = DType::kF32;
  EXPECT_EQ(bytes(), 10'000'000);
  sum.access = Access::kWrite;
  EXPECT_EQ(bytes(), 0) << "the first of a sum is the gradient itself";
}

View view(DType dtype, const Shape& shape) {
  View made;
  made.dtype = dtype;
  made.shape = shape;
  return made;
}

// Tokens [4, 2], rows of 2 ranks [2, 3, 2] in bf16.
const std::vector<View> kDispatched{view(DType::kBf16, {4, 2}), view(DType::kI32, {4, 1}),
                                    view(DType::kI32, {2, 2}), view(DType::kBf16, {2, 3, 2})};
Node kernel_node(KernelId kernel) {
  Node node;
  node.kind = OpKind::kKernel;
  node.kernel = kernel;
  return node;
}
const Node kDispatch = kernel_node(KernelId::kDispatchRows);

TEST(ModuleKernels, RowsOfSeveralExpertsAreSortedByAReadAndAWriteOfThem) {
  const TokenTravel travel{.experts = 2};
  EXPECT_EQ(sorting_bytes(kDispatch, kDispatched, travel, Modules::kMegatron),
            kDispatched[3].bytes() * 2);
  EXPECT_EQ(sorting_bytes(kDispatch, kDispatched, {.experts = 1}, Modules::kMegatron), Bytes{0});
  EXPECT_EQ(sorting_bytes(kDispatch, kDispatched, travel, Modules::kNative), Bytes{0});
}

TEST(ModuleKernels, WhereRowsTravelTogetherTheReceiverReadsTheTokensThatItGot) {
  const TokenTravel travel{.ranks = 3, .experts = 2};
  EXPECT_EQ(sorting_bytes(kDispatch, kDispatched, travel, Modules::kMegatron),
            kDispatched[0].bytes() * 2);
}

TEST(ModuleKernels, MegatronLaunchesAProductForEachExpert) {
  const std::vector<View> product{view(DType::kBf16, {2, 3, 2}), view(DType::kBf16, {4, 2, 8})};
  const Node node = kernel_node(KernelId::kGroupedForward);
  EXPECT_EQ(products_launched(node, product, Modules::kMegatron), 4);
  EXPECT_EQ(products_launched(node, product, Modules::kEager), 0);
  EXPECT_EQ(products_launched(kDispatch, kDispatched, Modules::kMegatron), 0);
}

}  // namespace
}  // namespace zplan
