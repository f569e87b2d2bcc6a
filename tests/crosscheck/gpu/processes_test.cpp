// The NCCL of the stand-in GPU between real processes, made by fork(): data comes across, what
// members disagree on is found in all of them, and who ends leaves nobody waiting.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/crosscheck/gpu/calls.h"
#include "tests/support/child_process.h"
#include "tests/support/gpu/stand_in.h"

namespace zplan::stand_in {
namespace {

using testing_support::Child;

constexpr std::size_t kFloats = 64;

void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// A page that all processes see: by it the first one tells the others where to meet.
class Board {
 public:
  Board()
      : page_(static_cast<Page*>(::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Board() { ::munmap(page_, sizeof(Page)); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  ncclUniqueId id(bool is_first) const {
    if (is_first) {
      ncclGetUniqueId(&page_->id);
      page_->is_there = true;
    }
    while (!page_->is_there) pause_briefly();
    return page_->id;
  }

 private:
  struct Page {
    ncclUniqueId id;
    std::atomic<bool> is_there;
  };
  Page* page_;
};

// A rank on a device of its process, with a stream and memory.
struct Member {
  Member(int own_rank, int own_device, int world, const ncclUniqueId& id)
      : rank(own_rank), device(own_device) {
    cudaSetDevice(device);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&comm, world, id, rank, &config);
    stream = make_stream();
    data = static_cast<float*>(stand_in::device(kFloats * sizeof(float)));
  }

  ncclResult_t state() const {
    ncclResult_t now = ncclSuccess;
    ncclCommGetAsyncError(comm, &now);
    return now;
  }
  // The first state that is another one.
  ncclResult_t state_after(ncclResult_t passing) const {
    while (state() == passing) pause_briefly();
    return state();
  }
  void reduce(std::size_t count) const {
    cudaSetDevice(device);
    ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, stream);
  }
  void finish() const {
    cudaSetDevice(device);
    cudaStreamSynchronize(stream);
  }
  std::vector<float> values() const {
    finish();
    std::vector<float> all(kFloats);
    cudaMemcpy(all.data(), data, kFloats * sizeof(float), cudaMemcpyDefault);
    return all;
  }

  const int rank, device;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;
};

// What the members of a process do; what it reports, "": its findings.
using Calls = std::function<std::string(const std::vector<Member>& own)>;

std::string text_of(const std::vector<std::string>& lines) {
  return std::accumulate(
      lines.begin(), lines.end(), std::string(),
      [](const std::string& all, const auto& line) { return all + line + "; "; });
}

// The reports of processes of so many ranks each.
std::vector<std::string> reports(int processes, int ranks_of_each, const Calls& calls,
                                 bool are_alone_on_devices = true) {
  const Board board;
  std::vector<Child> children;
  for (int p = 0; p < processes; ++p)
    children.emplace_back([&, p](const Child::Tell&) {
      const int world = processes * ranks_of_each;
      StandIn gpu({.devices = world,
                   .process = static_cast<std::size_t>(p),
                   .processes = static_cast<std::size_t>(processes)});
      std::vector<Member> own;
      const ncclUniqueId id = board.id(p == 0);
      for (int i = 0; i < ranks_of_each; ++i) {
        const int rank = p * ranks_of_each + i;
        own.emplace_back(rank, are_alone_on_devices ? rank : 0, world, id);
      }
      for (const Member& member : own) member.state_after(ncclInProgress);
      const std::string report = calls(own);
      return report.empty() ? text_of(gpu.findings()) : report;
    });
  std::vector<std::string> all;
  for (Child& child : children) all.push_back(child.wait());
  return all;
}

// Each adds up what all have, then passes it to the next.
std::string add_and_pass_on(const std::vector<Member>& own) {
  for (const Member& member : own) {
    const std::vector<float> values(kFloats, static_cast<float>(member.rank + 1));
    cudaMemcpy(member.data, values.data(), kFloats * sizeof(float), cudaMemcpyDefault);
    cudaStreamSynchronize(nullptr);
    member.reduce(kFloats);
  }
  for (const Member& member : own)
    if (member.values() != std::vector<float>(kFloats, 10)) return "a wrong sum";
  for (const Member& member : own) {
    cudaSetDevice(member.device);
    const std::vector<float> value{static_cast<float>(member.rank)};
    cudaMemcpy(member.data, value.data(), sizeof(float), cudaMemcpyDefault);
    cudaStreamSynchronize(nullptr);
    ncclGroupStart();
    ncclSend(member.data, 1, ncclFloat32, (member.rank + 1) % 4, member.comm, member.stream);
    ncclRecv(member.data + 1, 1, ncclFloat32, (member.rank + 3) % 4, member.comm, member.stream);
    ncclGroupEnd();
  }
  for (const Member& member : own)
    if (member.values()[1] != static_cast<float>((member.rank + 3) % 4)) return "a wrong number";
  for (const Member& member : own) ncclCommDestroy(member.comm);
  return "";
}

TEST(ProcessesOnGpu, OfTwoRanksEachAddAndPassOn) {
  EXPECT_THAT(reports(2, 2, add_and_pass_on), testing::Each(""));
}

struct Disagreement {
  const char* name;
  const char* finding;
  std::function<void(const Member&)> calls;
};

class Disagreeing : public testing::TestWithParam<Disagreement> {};

TEST_P(Disagreeing, IsFoundInBothProcesses) {
  const auto calls = [](const std::vector<Member>& own) {
    GetParam().calls(own.front());
    own.front().finish();
    return std::string();
  };
  EXPECT_THAT(reports(2, 1, calls), testing::Each(testing::HasSubstr(GetParam().finding)));
}

const Disagreement kDisagreements[] = {
    {"Counts", "ncclAllReduce of 5 elements of type 7, root 0 on rank 1",
     [](const Member& m) { m.reduce(m.rank == 0 ? 4 : 5); }},
    {"Order", "operation 1 is ",
     [](const Member& m) {
       m.reduce(4);
       if (m.rank == 0) m.reduce(4);
       ncclBroadcast(m.data, m.data, 4, ncclFloat32, 0, m.comm, m.stream);
       if (m.rank == 1) m.reduce(4);
     }},
    {"Types", "elements of type 9",
     [](const Member& m) {
       ncclAllReduce(m.data, m.data, 4, m.rank == 0 ? ncclFloat32 : ncclBfloat16, ncclSum, m.comm,
                     m.stream);
     }},
    {"Roots", "root 1 on rank 1",
     [](const Member& m) {
       ncclBroadcast(m.data, m.data, 4, ncclFloat32, m.rank, m.comm, m.stream);
     }},
    {"Transfers", "rank 0 sends 4 elements of type 7, rank 1 expects 5 of type 7",
     [](const Member& m) {
       if (m.rank == 0) ncclSend(m.data, 4, ncclFloat32, 1, m.comm, m.stream);
       if (m.rank == 1) ncclRecv(m.data, 5, ncclFloat32, 0, m.comm, m.stream);
     }},
};
INSTANTIATE_TEST_SUITE_P(Processes, Disagreeing, testing::ValuesIn(kDisagreements),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(ProcessesOnGpu, OnOneDeviceAreFound) {
  const auto calls = [](const std::vector<Member>&) { return std::string(); };
  EXPECT_THAT(reports(2, 1, calls, false),
              testing::Each(testing::HasSubstr("two of its ranks are on device 0")));
}

// Who waits for it is told, and comes free when told to abort.
TEST(ProcessesOnGpu, ThatEndInTheMiddleLeaveNobodyWaiting) {
  const auto calls = [](const std::vector<Member>& own) {
    const Member& member = own.front();
    member.reduce(4);
    if (member.rank == 1) {
      member.finish();
      ::raise(SIGKILL);
    }
    member.reduce(4);
    const ncclResult_t state = member.state_after(ncclSuccess);
    ncclCommAbort(member.comm);
    member.finish();
    return std::string(state == ncclRemoteError ? "remote error" : "another state");
  };
  EXPECT_THAT(reports(2, 1, calls), testing::ElementsAre("remote error", ""));
}

// Nothing is lost with who is through.
TEST(ProcessesOnGpu, ThatAreThroughMayGo) {
  const auto calls = [](const std::vector<Member>& own) {
    const Member& member = own.front();
    member.reduce(4);
    member.finish();
    if (member.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const ncclResult_t state = member.state();
    ncclCommDestroy(member.comm);
    return std::string(state == ncclSuccess ? "" : "an error");
  };
  EXPECT_THAT(reports(2, 1, calls), testing::Each(""));
}

}  // namespace
}  // namespace zplan::stand_in
