// Devices that fail, and drivers that lack something, as the backend of exec/cuda meets them.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/cuda_device.h"
#include "planner/core/error.h"
#include "tests/support/error_text.h"
#include "tests/support/gpu/stand_in.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using exec::cuda::CudaDevice;
using stand_in::StandIn;

std::string error_of_device(const stand_in::Options& options) {
  const StandIn gpu(options);
  return error_of([] { CudaDevice device({}); });
}

TEST(GpuThatIsNotThere, IsSaid) {
  EXPECT_THAT(error_of_device({.devices = 0}), testing::HasSubstr("shows no CUDA device"));
}

TEST(GpuDriver, ThatIsTooOldIsSaid) {
  EXPECT_THAT(error_of_device({.driver_version = 11080}),
              testing::HasSubstr("the NVIDIA driver is for CUDA 11.8"));
}

TEST(GpuThatIsOlder, RunsNoKernelsOfANewerOne) {
  const StandIn gpu({.capability = 89});
  const CudaDevice device({});
  EXPECT_EQ(error_of([&] { device.check(find_kernel_set("cuda.sm89.bf16")); }), "");
  EXPECT_THAT(error_of([&] { device.check(find_kernel_set("cuda.sm90.bf16")); }),
              testing::HasSubstr("needs compute capability 9.0, CUDA device 0 (stand-in) has 8.9"));
}

TEST(GpuDriver, ThatLacksAFunctionIsSaid) {
  for (const char* symbol :
       {"cuDeviceGetAttribute", "cuMemsetD16", "cuStreamWriteValue64", "cuStreamWaitValue64"})
    EXPECT_THAT(error_of_device({.missing_symbols = {symbol}}),
                testing::HasSubstr(std::string("the NVIDIA driver lacks ") + symbol));
}

// Gradients and optimizer states in host memory: copies in both directions beside the compute.
Plan offloaded() {
  Plan plan = testing_support::base_plan("cuda.sm90.fp32");
  plan.batch.micro_batch = 2;
  plan.zero_stage = 2;
  plan.parallel.dp = 2;
  plan.placement.grads = plan.placement.optimizer = Tier::kCpu;
  return plan;
}

void train_on_gpu(const Plan& plan) {
  exec::RunOptions options;
  options.steps = 2;
  options.comm_deadline = std::chrono::seconds(10);
  options.device = std::make_shared<CudaDevice>(exec::CudaDeviceOptions{});
  testing_support::train(plan, options);
}

// Wherever a task fails, the run ends with an error, and with nothing done wrong on the way.
TEST(GpuThatFails, EndsTheRun) {
  for (const int task : {10, 200, 700}) {
    StandIn gpu;
    gpu.fail_task(0, cudaErrorECCUncorrectable, task);
    EXPECT_THAT(error_of([] { train_on_gpu(offloaded()); }), testing::HasSubstr("CUDA device 0"));
    EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
  }
}

TEST(GpuThatFails, InACallEndsTheRun) {
  for (const char* function : {"cudaMalloc", "cudaHostAlloc", "cudaEventRecord",
                               "cudaStreamWaitEvent", "cudaMemcpyAsync", "kernel"}) {
    StandIn gpu;
    gpu.fail_call(function, cudaErrorInvalidValue);
    EXPECT_NE(error_of([] { train_on_gpu(offloaded()); }), "") << function;
    EXPECT_EQ(gpu.findings(), std::vector<std::string>{}) << function;
  }
}

TEST(GpuMemory, ThatDoesNotSufficeIsSaid) {
  const StandIn gpu({.memory = 16384});
  EXPECT_THAT(error_of([] { train_on_gpu(offloaded()); }),
              testing::HasSubstr("memory to try kernels in"));
}

}  // namespace
}  // namespace zplan
