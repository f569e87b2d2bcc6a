// What becomes of a job when one of its processes is killed or stopped: real processes, made by
// fork(), so this program has no other threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "exec/comm/process_comm.h"
#include "tests/support/child_process.h"
#include "tests/unit/exec/comm/communication_job.h"
#include "tests/unit/exec/comm/process_support.h"

namespace zplan::exec {
namespace {

using ::testing::AllOf;
using testing::communication_job;
using testing::free_port;
using ::testing::HasSubstr;
using testing::options_of;
using testing_support::Child;

constexpr int kWorld = 4;
constexpr Seconds kSoon{5};  // until all know of a loss

// All-reduces without end, as a training job does; returns when `rounds` are done. Tells when the
// first is.
std::string reduce(const Job& job, const RendezvousOptions& options, int rounds,
                   const Child::Tell& tell) {
  StopSignal signal;
  Rendezvous rendezvous(options);
  ProcessComm comm(job, rendezvous, signal, Seconds{30});
  std::vector<double> x(100000, 1.0);
  CollectiveCall call{CollectiveKind::kAllReduce, DType::kF64, std::ssize(x)};
  call.input = call.output = reinterpret_cast<std::byte*>(x.data());
  for (int round = 0; round < rounds; ++round) {
    std::fill(x.begin(), x.end(), 1.0);
    comm.collective(rendezvous.rank(), 0, call);
    if (x.front() != kWorld || x.back() != kWorld) return "wrong sum";
    if (round == 0) tell();
  }
  rendezvous.finish();
  return "finished";
}

class KilledProcess : public ::testing::Test {
 protected:
  const Job job_ = communication_job(kWorld, {{CollectiveKind::kAllReduce, DType::kF64, 100000}});

  // Returns when all are under way.
  std::vector<Child> start(int rounds, Seconds silence = Seconds{30}) const {
    const int port = free_port();
    std::vector<Child> children;
    for (int rank = 0; rank < kWorld; ++rank) {
      RendezvousOptions options = options_of(rank, kWorld, port);
      options.silence_deadline = silence;
      children.emplace_back(
          [&](const Child::Tell& tell) { return reduce(job_, options, rounds, tell); });
    }
    for (const Child& child : children) child.await();
    return children;
  }

  // That the others end soon after and name it.
  static void expect_loss(std::vector<Child>& children, int lost, const std::string& why) {
    const TimePoint start = std::chrono::steady_clock::now();
    for (int rank = 0; rank < kWorld; ++rank) {
      if (rank == lost) continue;
      const std::string line = children[static_cast<std::size_t>(rank)].wait();
      EXPECT_THAT(line, AllOf(HasSubstr("rank " + std::to_string(lost) + " is lost: " + why),
                              HasSubstr("; rank " + std::to_string(rank) + " was in step ")));
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
    EXPECT_LT(seconds_since(start), kSoon);
  }
};

constexpr int kEndless = 1 << 30;

TEST_F(KilledProcess, AllFinishWhenNobodyIs) {
  std::vector<Child> children = start(20);
  for (Child& child : children) EXPECT_EQ(child.wait(), "finished");
}

TEST_F(KilledProcess, TheOthersNameItSoon) {
  for (int lost : {2, 0}) {
    std::vector<Child> children = start(kEndless);
    children[static_cast<std::size_t>(lost)].signal(SIGKILL);
    expect_loss(children, lost, "");
  }
}

TEST_F(KilledProcess, OneThatIsStoppedIsLostToSilence) {
  std::vector<Child> children = start(kEndless, Seconds{1});
  children[1].signal(SIGSTOP);
  expect_loss(children, 1, "no sign of life for 1 s");
  children[1].signal(SIGCONT);
  EXPECT_THAT(children[1].wait(), HasSubstr(" is lost: "));
}

TEST_F(KilledProcess, BeforeAllHaveComeItEndsTheStart) {
  const int port = free_port();
  std::vector<Child> children;
  for (int rank = 0; rank < kWorld - 1; ++rank) {
    children.emplace_back([&](const Child::Tell& tell) {
      RendezvousOptions options = options_of(rank, kWorld, port);
      options.has_come = [&](int) { tell(); };
      return reduce(job_, options, 1, tell);
    });
  }
  for (int come = 1; come < kWorld - 1; ++come) children[0].await();
  children[2].signal(SIGKILL);
  for (int rank : {0, 1}) {
    EXPECT_EQ(children[static_cast<std::size_t>(rank)].wait(), "rank 2 ended before all had come");
  }
}

}  // namespace
}  // namespace zplan::exec
