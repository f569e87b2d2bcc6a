// Checkpoints of ranks that are processes, for which threads stand here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/format.h"
#include "exec/checkpoint/saved_file.h"
#include "exec/run.h"
#include "tests/unit/exec/comm/process_support.h"
#include "tests/unit/exec/mini_job.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kWorld = 2;

class CheckpointsOfProcesses : public testing::StorageFolder {
 protected:
  // What a process is to do, and what came of it.
  struct Process {
    RunOptions options = testing::mini_run(RunMode::kThreaded, 4);
    std::vector<std::string> lines{};
    std::int64_t begin = -1;
  };
  void train(std::vector<Process>& processes) const {
    const int port = testing::free_port();
    const auto errors = testing::on_ranks(kWorld, [&](int rank) {
      Process& own = processes[static_cast<std::size_t>(rank)];
      own.options.rendezvous =
          std::make_shared<Rendezvous>(testing::options_of(rank, kWorld, port));
      own.options.say = [&own](const std::string& line) { own.lines.push_back(line); };
      own.begin = run(job_, testing::mini_data(), own.options).begin.step;
      own.options.rendezvous->finish();
    });
    EXPECT_THAT(errors, Each(""));
  }
  std::vector<Process> saving() const {
    std::vector<Process> processes(kWorld);
    for (Process& each : processes) each.options.save = {.folder = path(), .every = 2};
    return processes;
  }
  std::string path() const { return (folder_ / "kept").string(); }

  const Job job_ = testing::mini_job({.dp = kWorld, .shard_optimizer = true});
};

TEST_F(CheckpointsOfProcesses, AreFinishedWhenAllHaveWrittenTheirParts) {
  std::vector<Process> processes = saving();
  int left = 1;  // requests that fail
  processes[1].options.save.fault = [&](const IoRequest&) -> std::optional<std::int64_t> {
    if (left-- > 0) return -EIO;
    return std::nullopt;
  };
  train(processes);
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(4));
  EXPECT_THAT(processes[0].lines, ElementsAre(HasSubstr("rank 1 has not written its part")));
}

// Moments of the second rank, which the first does not read.
TEST_F(CheckpointsOfProcesses, ThatAreDamagedForOneAreTakenByNone) {
  std::vector<Process> processes = saving();
  train(processes);
  ASSERT_THAT(checkpoint_steps(path()), ElementsAre(2, 4));
  const std::string folder = path_in(path(), checkpoint_name(4));
  const std::string index_path = path_in(folder, index_name(1));
  const RankIndex index = index_from_text(read_saved_text(index_path), index_path);
  ASSERT_EQ(index.pieces.back().state, State::kMoment2);
  std::fstream file(path_in(folder, bytes_name(1)),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(index.pieces.back().at.offset);
  file << "damaged";
  file.close();
  processes = std::vector<Process>(kWorld);
  for (Process& each : processes) each.options.resume.path = path();
  train(processes);
  for (const Process& each : processes) {
    EXPECT_EQ(each.begin, 2);
    EXPECT_THAT(each.lines, ElementsAre(HasSubstr("the checkpoint before it is tried")));
  }
}

}  // namespace
}  // namespace zplan::exec
