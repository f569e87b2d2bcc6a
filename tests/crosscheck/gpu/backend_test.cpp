// The backend of exec/cuda alone on the stand-in GPU: what no plan asks of it yet.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/cuda_backend.h"
#include "tests/crosscheck/gpu/calls.h"
#include "tests/support/gpu/stand_in.h"
#include "tests/support/sample_job.h"

namespace zplan::exec::cuda {
namespace {

constexpr std::int64_t kElements = 1024;

// The same sum of squares on each of the lanes, with operands of its own.
Program sums_on(std::initializer_list<Lane> lanes) {
  SampleBuilder b;
  for (const Lane lane : lanes) {
    const BufferId x = b.buffer("x", 4 * kElements, 1, Category::kGradients);
    const BufferId sum = b.buffer("sum", 256, 1, Category::kInput);
    b.kernel({}, lane, KernelId::kSumSquares,
             {sample_view(x, Access::kRead, {kElements}),
              sample_view(sum, Access::kUpdate, {1}, {}, 0, 0, DType::kF64)},
             {0, -1});
  }
  return b.finish();
}

void queue(Backend& backend, const Program& program, const Node& node) {
  std::vector<Operand> operands;
  for (const View& view : program.operands(node))
    operands.push_back({&view, static_cast<std::byte*>(stand_in::device(
                                   static_cast<std::size_t>(view.bytes().value)))});
  KernelCall call;
  call.node = &node;
  call.operands = operands;
  call.attributes = resolve(program.attributes_of(node), {});
  backend.run_kernel(call);
}

// Partial sums are no operands: each lane has its own.
TEST(BackendOnGpu, SumsOnTwoLanesAtATime) {
  stand_in::StandIn gpu;
  const Program program = sums_on({Lane::kCompute, Lane::kCommReduce});
  auto queues = std::make_unique<CudaQueues>(0, std::make_shared<StreamBudget>(0, 8),
                                             launched_lanes(program));
  CudaBackend backend(program, find_kernel_set("cuda.sm90.fp32"), 1, std::move(queues), {});
  for (const Node& node : program.nodes) queue(backend, program, node);
  backend.queues()->finish();
  EXPECT_GE(gpu.tasks(), 4);
  EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
}

}  // namespace
}  // namespace zplan::exec::cuda
