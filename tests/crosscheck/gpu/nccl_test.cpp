// exec/cuda/nccl_comm.h on the stand-in GPU: every kind of collective gives the bits that its
// arithmetic says, also those of which no plan for CUDA has any.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/collective.h"
#include "exec/cuda/nccl_comm.h"
#include "tests/crosscheck/gpu/calls.h"
#include "tests/support/gpu/stand_in.h"
#include "tests/unit/exec/comm/communication_job.h"
#include "tests/unit/exec/comm/process_support.h"

namespace zplan::exec::cuda {
namespace {

constexpr int kWorld = 3;
using Floats = std::vector<float>;

std::vector<CollectiveCall> all_calls() {
  std::vector<CollectiveCall> calls;
  for (int kind = 0; kind < kCollectiveKindCount; ++kind)
    for (const std::int64_t n : {1, 1025}) {
      CollectiveCall& call = calls.emplace_back();
      call.kind = static_cast<CollectiveKind>(kind);
      call.elements = n;
      call.root = has_root(call.kind) ? kWorld - 1 : 0;
    }
  return calls;
}

// The input of a member, of which sums depend on the order of addition; and room for its output.
struct Member {
  Member(const CollectiveCall& call, int rank) {
    const CollectiveRow& row = row_of(call.kind);
    input.resize(static_cast<std::size_t>(call.elements * parts_of(row.input, kWorld)));
    output.assign(static_cast<std::size_t>(call.elements * parts_of(row.output, kWorld)), 7.0f);
    for (std::size_t i = 0; i < input.size(); ++i)
      input[i] = std::sin(1.0f + static_cast<float>(i)) * std::pow(10.0f, static_cast<float>(rank));
  }
  Floats input, output;
};

// By the arithmetic alone.
Floats expected_output(CollectiveCall call, int rank) {
  std::vector<Member> members;
  for (int i = 0; i < kWorld; ++i) members.emplace_back(call, i);
  std::vector<CollectiveCall> calls;
  for (Member& member : members) {
    call.input = reinterpret_cast<const std::byte*>(member.input.data());
    call.output = reinterpret_cast<std::byte*>(member.output.data());
    calls.push_back(call);
  }
  for (int i = 0; i < kWorld; ++i) run_share(calls, i);
  return members[static_cast<std::size_t>(rank)].output;
}

std::byte* upload(const Floats& values) {
  void* memory = stand_in::device(values.size() * sizeof(float));
  cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyDefault);
  cudaStreamSynchronize(nullptr);
  return static_cast<std::byte*>(memory);
}

Floats output_of(NcclComm& comm, CudaQueues& queues, NodeIndex node, CollectiveCall call,
                 int rank) {
  Member own(call, rank);
  call.input = upload(own.input);
  call.output = upload(own.output);
  Instance at;
  at.node = node;
  comm.collective(rank, at, call);
  queues.finish();
  cudaMemcpy(own.output.data(), call.output, own.output.size() * sizeof(float), cudaMemcpyDefault);
  return own.output;
}

TEST(NcclOnGpu, CollectivesGiveTheBitsOfTheirArithmetic) {
  stand_in::StandIn gpu({.devices = kWorld});
  const std::vector<CollectiveCall> calls = all_calls();
  const Job job = testing::communication_job(kWorld, calls);
  const int port = testing::free_port();
  const auto errors = testing::on_ranks(kWorld, [&](int rank) {
    Rendezvous rendezvous(testing::options_of(rank, kWorld, port));
    cudaSetDevice(rank);
    const std::vector<Lane> lanes{Lane::kCommReduce};
    CudaQueues queues(rank, std::make_shared<StreamBudget>(rank, 8), lanes);
    const auto exchange = [&](const std::string& own) { return rendezvous.exchange(own); };
    NcclComm comm(queues, {&job, rank, exchange, std::chrono::seconds(20)});
    for (std::size_t i = 0; i < calls.size(); ++i)
      EXPECT_EQ(output_of(comm, queues, static_cast<NodeIndex>(i), calls[i], rank),
                expected_output(calls[i], rank))
          << name(calls[i].kind) << " of " << calls[i].elements << " on rank " << rank;
    rendezvous.finish();
  });
  EXPECT_THAT(errors, ::testing::Each(""));
  EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
}

// NCCL knows nothing of a rank that has not connected; the rendezvous does.
TEST(NcclOnGpu, ConnectingEndsWhenAProcessIsLost) {
  const stand_in::StandIn gpu({.devices = kWorld});
  const Job job = testing::communication_job(kWorld, all_calls());
  const std::vector<Lane> lanes{Lane::kCommReduce};
  CudaQueues queues(0, std::make_shared<StreamBudget>(0, 8), lanes);
  const auto exchange = [](const std::string& own) {
    return std::vector<std::string>{own, "", ""};
  };
  const auto check = [] { throw Error(ExitCode::kDevice, "rank 1 is lost"); };
  try {
    NcclComm(queues, {&job, 0, exchange, std::chrono::seconds(60), check});
    FAIL() << "nobody else has come";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 is lost");
  }
  EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
}

}  // namespace
}  // namespace zplan::exec::cuda
