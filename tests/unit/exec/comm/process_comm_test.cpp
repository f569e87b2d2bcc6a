#include "exec/comm/process_comm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "exec/comm/instance_name.h"
#include "exec/comm/lane_flows.h"
#include "exec/comm/message.h"
#include "exec/comm/thread_group.h"
#include "exec/cpu/kernels/half.h"
#include "tests/unit/exec/comm/communication_job.h"
#include "tests/unit/exec/comm/process_support.h"

namespace zplan::exec {
namespace {

using ::testing::AllOf;
using testing::communication_job;
using ::testing::Each;
using testing::free_port;
using ::testing::HasSubstr;
using testing::on_ranks;
using testing::options_of;

constexpr Seconds kDeadline{20};

template <typename T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// Values whose sum depends on the order of addition, and fits fp16.
template <typename T>
void fill(std::vector<T>& values, int member) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = std::sin(1.0 + static_cast<double>(i) + 100.0 * member);
    values[i] = T(static_cast<Compute<T>>(x * std::pow(10.0, member % 5)));
  }
}

struct Lengths {
  std::int64_t input, output;
};
Lengths lengths(CollectiveKind kind, std::int64_t n, int world) {
  return {n * parts_of(row_of(kind).input, world), n * parts_of(row_of(kind).output, world)};
}

// Does the same by both, in place or not, and compares the bits.
template <typename T>
void compare_with_threads(ProcessComm& comm, ThreadGroup& threads, int rank, NodeIndex node,
                          CollectiveCall call, bool in_place) {
  const Lengths length = lengths(call.kind, call.elements, threads.size());
  std::vector<T> input(static_cast<std::size_t>(length.input));
  fill(input, rank);
  std::array<std::vector<T>, 2> output;
  for (std::size_t way = 0; way < 2; ++way) {
    std::vector<T> in = input, &out = output[way];
    out.assign(static_cast<std::size_t>(length.output), T(7));
    call.input = bytes(in);
    call.output = bytes(out);
    const CollectiveRow& row = row_of(call.kind);
    const bool gathers = keeps_part_in_place(call.kind) && has_parts(row.output);
    const bool scatters = keeps_part_in_place(call.kind) && has_parts(row.input);
    if (in_place && gathers) {
      std::copy(in.begin(), in.end(), out.begin() + rank * call.elements);
      call.input = bytes(out) + rank * call.elements * static_cast<int>(sizeof(T));
    } else if (in_place && scatters) {
      call.output = bytes(in) + rank * call.elements * static_cast<int>(sizeof(T));
    } else if (in_place) {
      out = in;
      call.input = bytes(out);
    }
    if (way == 0) {
      comm.collective(rank, node, call);
    } else {
      threads.run(rank, call);
    }
    if (in_place && scatters)
      out.assign(in.begin() + rank * call.elements, in.begin() + (rank + 1) * call.elements);
  }
  const bool has_output = takes_part(row_of(call.kind).output, rank, call.root);
  if (!has_output || output[0].empty()) return;
  ASSERT_EQ(std::memcmp(output[0].data(), output[1].data(), output[0].size() * sizeof(T)), 0)
      << name(call.kind) << " of " << call.elements << " " << name(call.dtype) << " at " << rank;
}

void compare_with_threads(ProcessComm& comm, ThreadGroup& threads, int rank, NodeIndex node,
                          const CollectiveCall& call) {
  for (bool in_place : {false, true}) {
    if (in_place && hands_on(call.kind)) continue;
    if (call.dtype == DType::kF64) {
      compare_with_threads<double>(comm, threads, rank, node, call, in_place);
    } else if (call.dtype == DType::kF32) {
      compare_with_threads<float>(comm, threads, rank, node, call, in_place);
    } else if (call.dtype == DType::kBf16) {
      compare_with_threads<cpu::Bf16>(comm, threads, rank, node, call, in_place);
    } else {
      compare_with_threads<cpu::Fp16>(comm, threads, rank, node, call, in_place);
    }
  }
}

// All kinds and types in sizes around lines, pieces and chunks.
std::vector<CollectiveCall> all_calls(int world) {
  std::vector<CollectiveCall> calls;
  for (int kind = 0; kind < kCollectiveKindCount; ++kind) {
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBf16}) {
      for (std::int64_t n : {0, 1, 5, 16, 1025, 20001}) {
        calls.push_back({static_cast<CollectiveKind>(kind), dtype, n});
        calls.back().root = static_cast<int>(n) % world;
        if (!has_root(calls.back().kind)) calls.back().root = 0;
      }
    }
    const bool cuts = kind == static_cast<int>(CollectiveKind::kAllReduce) ||
                      kind == static_cast<int>(CollectiveKind::kReduce);
    calls.push_back({static_cast<CollectiveKind>(kind), DType::kF32, 300001 * (cuts ? world : 1)});
  }
  return calls;
}

class ProcessCommOf : public ::testing::TestWithParam<int> {};

TEST_P(ProcessCommOf, CollectivesGiveTheBitsOfThreads) {
  const int world = GetParam(), port = free_port();
  const std::vector<CollectiveCall> calls = all_calls(world);
  const Job job = communication_job(world, calls);
  StopSignal signal;
  ThreadGroup threads(world, signal);
  const auto errors = on_ranks(world, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, world, port));
    ProcessComm comm(job, rendezvous, signal, kDeadline);
    for (std::size_t i = 0; i < calls.size(); ++i)
      compare_with_threads(comm, threads, rank, static_cast<NodeIndex>(i), calls[i]);
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ProcessCommOf, ::testing::Values(1, 2, 3, 4));

// Pairs of one job that send to each other on two lanes at once.
TEST(ProcessComm, TransfersOfAllSizesArriveOnTheirLanes) {
  const std::vector<std::int64_t> sizes{0, 1, 4095, 3000001};
  const Job job = testing::transfer_job(sizes);
  const int port = free_port();
  const auto errors = on_ranks(2, [&](int rank) {
    StopSignal signal;
    Rendezvous rendezvous(options_of(rank, 2, port));
    ProcessComm comm(job, rendezvous, signal, kDeadline);
    const auto lane = [&](bool sends, NodeIndex first, int value) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        std::vector<std::int8_t> data(static_cast<std::size_t>(sizes[i]));
        const auto node = static_cast<NodeIndex>(first + i);
        if (sends) {
          std::iota(data.begin(), data.end(), static_cast<std::int8_t>(value));
          comm.send(rank, node, bytes(data), Bytes{sizes[i]});
          continue;
        }
        comm.receive(rank, node, bytes(data), Bytes{sizes[i]});
        for (std::size_t k = 0; k < data.size(); ++k)
          ASSERT_EQ(data[k], static_cast<std::int8_t>(value + static_cast<int>(k)));
      }
    };
    std::jthread forward([&] { lane(rank == 0, 0, 1); });
    lane(rank == 1, static_cast<NodeIndex>(sizes.size()), 2);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(ProcessComm, AllMembersLearnWhenTheLastOneCame) {
  const std::vector<CollectiveCall> calls{{CollectiveKind::kBroadcast, DType::kF64, 1}};
  const Job job = communication_job(2, calls);
  const int port = free_port();
  std::array<TimePoint, 2> start;
  TimePoint late;
  const auto errors = on_ranks(2, [&](int rank) {
    StopSignal signal;
    Rendezvous rendezvous(options_of(rank, 2, port));
    ProcessComm comm(job, rendezvous, signal, kDeadline);
    rendezvous.exchange("");
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      late = std::chrono::steady_clock::now();
    }
    std::vector<double> x{1};
    CollectiveCall call = calls[0];
    call.input = call.output = bytes(x);
    start[static_cast<std::size_t>(rank)] = comm.collective(rank, 0, call);
    rendezvous.finish();
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_GE(start[0], late);  // the root waits as well
  EXPECT_GE(start[1], late);
}

// The first collective of each rank.
struct Try {
  const Job& job;
  int port;
  Seconds deadline = kDeadline;
  void run(int rank, const CollectiveCall& call, StopSignal& signal,
           const std::function<void(Rendezvous&, ProcessComm&)>& before) const {
    Rendezvous rendezvous(options_of(rank, job.world(), port));
    ProcessComm comm(job, rendezvous, signal, deadline);
    before(rendezvous, comm);
    std::vector<double> x(static_cast<std::size_t>(call.elements));
    CollectiveCall own = call;
    own.input = own.output = bytes(x);
    comm.collective(rank, 0, own);
  }
};

TEST(ProcessComm, APartnerThatDoesNotComeIsNamedAtTheDeadline) {
  const CollectiveCall call{CollectiveKind::kAllReduce, DType::kF64, 8};
  const Job job = communication_job(2, {call});
  std::vector<std::string> errors;
  std::atomic<int> connected = 0;
  // The deadline is one that both keep when they connect, however slow the machine is.
  for (Seconds deadline{0.25}; connected < 2; deadline.value *= 2) {
    connected = 0;
    const Try attempt{job, free_port(), deadline};
    std::atomic<bool> is_over = false;
    errors = on_ranks(2, [&](int rank) {
      StopSignal signal;
      const auto before = [&](Rendezvous&, ProcessComm&) {
        ++connected;
        while (rank == 1 && !is_over) std::this_thread::yield();
      };
      try {
        attempt.run(rank, call, signal, before);
      } catch (...) {
        is_over = true;
        throw;
      }
    });
  }
  EXPECT_THAT(errors[0],
              AllOf(HasSubstr("rank 1 does not come; rank 0 was in step 0, backward.head.reduce"),
                    HasSubstr("waiting for rank 1 for ")));
}

TEST(ProcessComm, AStopEndsTheWait) {
  const CollectiveCall call{CollectiveKind::kAllReduce, DType::kF64, 8};
  const Job job = communication_job(2, {call});
  const Try attempt{job, free_port()};
  std::array<StopSignal, 2> signals;
  std::atomic<int> stopped = 0;
  on_ranks(2, [&](int rank) {
    std::jthread stopper;
    try {
      attempt.run(rank, call, signals[static_cast<std::size_t>(rank)],
                  [&](Rendezvous& rendezvous, ProcessComm&) {
                    rendezvous.exchange("");
                    if (rank == 1) {  // keeps its connections
                      while (stopped == 0) std::this_thread::yield();
                      throw Stopped{};
                    }
                    stopper = std::jthread([&] {
                      std::this_thread::sleep_for(std::chrono::milliseconds(50));
                      signals[0].stop();
                    });
                  });
    } catch (const Stopped&) {
      ++stopped;
    }
  });
  EXPECT_EQ(stopped, 2);
}

TEST(ProcessComm, RefusesPartnersThatDisagree) {
  const CollectiveCall sum{CollectiveKind::kAllReduce, DType::kF64, 8};
  const CollectiveCall broadcast{CollectiveKind::kBroadcast, DType::kF64, 8};
  std::vector<std::pair<CollectiveCall, CollectiveCall>> cases(4, {sum, sum});
  cases[0].second.elements = 9;
  cases[1].second.kind = CollectiveKind::kAllGather;
  cases[2].second.dtype = DType::kF32;
  cases[3].second.kind = CollectiveKind::kReduceScatter;
  cases.emplace_back(broadcast, broadcast).second.root = 1;
  for (const auto& [call, other] : cases) {
    const Job job = communication_job(2, {call});
    const Try attempt{job, free_port()};
    const auto errors = on_ranks(2, [&](int rank) {
      StopSignal signal;
      attempt.run(rank, rank == 0 ? call : other, signal, [](Rendezvous&, ProcessComm&) {});
    });
    const std::string of_zero =
        "partners disagree: rank 0 calls " + std::string(name(call.kind)) + " of 8 f64";
    const bool is_told = errors[0].find(of_zero) != std::string::npos ||
                         errors[1].find("partners disagree: rank 1 calls") != std::string::npos;
    EXPECT_TRUE(is_told) << errors[0] << " | " << errors[1];
  }
}

// Both call the same, the second for the first time.
TEST(ProcessComm, RefusesAPartnerThatIsAnOperationAhead) {
  const int port = free_port();
  const Socket listener = listen_at(kLoopback, 0);
  const auto errors = on_ranks(2, [&](int rank) {
    Rendezvous rendezvous(options_of(rank, 2, port));
    StopSignal signal;
    std::optional<Socket> socket;
    if (rank == 0) {
      socket = accept(listener, after(kDeadline));
    } else {
      socket = connect_to(kLoopback, listener.own_port(), after(kDeadline));
    }
    Link link{1 - rank, std::move(socket.value()), 1 - rank};
    Link* const partners[] = {&link};
    LaneFlows flows({rank, &rendezvous, &signal, kDeadline,
                     [](NodeIndex, std::int64_t) { return std::string("a sum"); }},
                    1);
    flows.begin({.kind = CollectiveKind::kAllReduce, .elements = 8}, partners);
    flows.move();
  });
  EXPECT_THAT(errors, ::testing::Contains(HasSubstr("is out of step (in a sum)")));
}

TEST(ProcessComm, APartnerThatAbortsIsNamedWithItsReasonByAll) {
  constexpr int kWorld = 4;
  const CollectiveCall call{CollectiveKind::kAllReduce, DType::kF64, 100};
  const Job job = communication_job(kWorld, {call});
  const Try attempt{job, free_port()};
  const auto errors = on_ranks(kWorld, [&](int rank) {
    StopSignal signal;
    attempt.run(rank, call, signal, [&](Rendezvous& rendezvous, ProcessComm& comm) {
      rendezvous.exchange("");
      std::atomic<bool> is_told = false;
      const LossWatch watch(rendezvous, [&](const Loss& loss) {
        EXPECT_THAT(comm.lost(loss).what(), HasSubstr("rank 2 is lost: the disk is full; rank "));
        is_told = true;
      });
      if (rank == 2) {
        rendezvous.abort("the disk is full");
        throw Error(ExitCode::kDevice, "full");
      }
      while (!is_told) std::this_thread::yield();
    });
  });
  for (int rank : {0, 1, 3}) {
    EXPECT_THAT(errors[static_cast<std::size_t>(rank)],
                AllOf(HasSubstr("rank 2 is lost: the disk is full"),
                      HasSubstr("rank " + std::to_string(rank) + " was in step 0, backward.head")));
  }
}

// Nobody listens at the port it has named.
TEST(ProcessComm, APartnerThatIsLostBeforeItIsReachedIsNamed) {
  const CollectiveCall call{CollectiveKind::kAllReduce, DType::kF64, 8};
  const Job job = communication_job(2, {call});
  const int port = free_port();
  const auto errors = on_ranks(2, [&](int rank) {
    StopSignal signal;
    Rendezvous rendezvous(options_of(rank, 2, port));
    if (rank == 1) ProcessComm(job, rendezvous, signal, kDeadline);
    rendezvous.exchange(join({"127.0.0.1", "", std::to_string(free_port())}));
    rendezvous.abort("the disk is full");
  });
  EXPECT_EQ(errors[1], "rank 0 is lost: the disk is full");
}

TEST(ProcessComm, OperationsAreNamedByStepAndInstance) {
  const CollectiveCall call{CollectiveKind::kAllReduce, DType::kF64, 8};
  Job job = communication_job(1, {call, call});
  Program& program = job.classes[0].program;
  program.blocks.push_back(
      {.parent = 0, .depth = 1, .count = 3, .var = Var::kMicro, .items = {{false, 1}}});
  program.blocks[0].items = {{false, 0}, {true, 1}};
  program.nodes[1].block = 1;
  const ProgramIndex index(program);
  EXPECT_THAT(instance_name(index, 0, 2), AllOf(HasSubstr("step 2, "), HasSubstr("[m0,l0]")));
  EXPECT_THAT(instance_name(index, 1, 2), AllOf(HasSubstr("step 0, "), HasSubstr("[m2,l0]")));
  EXPECT_THAT(instance_name(index, 1, 7), AllOf(HasSubstr("step 2, "), HasSubstr("[m1,l0]")));
}

}  // namespace
}  // namespace zplan::exec
