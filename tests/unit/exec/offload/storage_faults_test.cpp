// Runs whose storage fails: one clear line, the code of device errors, no file left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <fstream>

#include "exec/memory/state_access.h"
#include "exec/run.h"
#include "planner/core/quantity.h"
#include "tests/unit/exec/mini_job.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using testing::device_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::mini_data;

class StorageFaults : public testing::StorageFolder {
 protected:
  RunOptions run_options(RunMode mode, int steps = 50) const {
    RunOptions result = testing::mini_run(mode, steps);
    result.storage = options();
    return result;
  }
  // The line a run ends with.
  std::string failure(const RunOptions& options) const {
    const std::string what = device_error([&] { run(job_, mini_data(), options); });
    EXPECT_THAT(files(), IsEmpty());
    return what;
  }

  static constexpr std::array kModes{RunMode::kThreaded, RunMode::kSerial};
  const Job job_ = testing::mini_job({.dp = 2, .pp = 2, .shard_optimizer = true, .on_nvme = true});
};

TEST_F(StorageFaults, ARunThatEndsWellLeavesNoFileAndItsStatesReadable) {
  const RunResult result = run(job_, mini_data(), run_options(RunMode::kThreaded, 3));
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_NE(read_tensor(job_, result.memory, {0, 0, 0}, State::kMoment2)[0], 0.0);
  EXPECT_EQ(replica_mismatch(job_, result.memory), std::nullopt);
}

TEST_F(StorageFaults, ARunSaysHowItUsesStorage) {
  RunOptions options = run_options(RunMode::kThreaded, 1);
  options.storage.method = IoMethod::kPosix;
  const RunResult result = run(job_, mini_data(), options);
  ASSERT_TRUE(result.storage.has_value());
  EXPECT_EQ(result.storage->files, 4);
  EXPECT_EQ(result.storage->bytes, job_.classes[0].placement.slab[2] * 4);
  EXPECT_THAT(describe(*result.storage),
              HasSubstr("4 files of " + format_bytes(result.storage->bytes) + " in all in " +
                        folder_.string() + "; pread and pwrite (asked for)"));
  const Job in_memory = testing::mini_job({});
  EXPECT_FALSE(run(in_memory, mini_data(), options).storage.has_value());
}

TEST_F(StorageFaults, ErrorsOfTheDevice) {
  for (RunMode mode : kModes) {
    for (IoKind kind : {IoKind::kRead, IoKind::kWrite}) {
      RunOptions options = run_options(mode);
      std::atomic<int> requests = 0;
      options.storage.fault = [&](const IoRequest& request) -> std::optional<std::int64_t> {
        return request.kind == kind && ++requests > 100 ? std::optional<std::int64_t>(-EIO)
                                                        : std::nullopt;
      };
      EXPECT_THAT(failure(options), HasSubstr("Input/output error"));
    }
  }
}

TEST_F(StorageFaults, AFullDiskAtTheStart) {
  RunOptions options = run_options(RunMode::kThreaded);
  std::atomic<int> reserved = 0;
  options.storage.fault = [&](const IoRequest& request) -> std::optional<std::int64_t> {
    return request.kind == IoKind::kReserve && ++reserved == 3
               ? std::optional<std::int64_t>(-ENOSPC)
               : std::nullopt;
  };
  EXPECT_THAT(failure(options), HasSubstr("rank2.slab: cannot reserve"));
}

TEST_F(StorageFaults, AFullDiskWhileTheStatesAreDrawn) {
  RunOptions options = run_options(RunMode::kThreaded);
  options.storage.fault = [](const IoRequest& request) -> std::optional<std::int64_t> {
    return request.kind == IoKind::kWrite ? std::optional<std::int64_t>(-ENOSPC) : std::nullopt;
  };
  EXPECT_THAT(failure(options), HasSubstr("No space left on device"));
}

TEST_F(StorageFaults, ShortTransfersChangeNoBit) {
  const RunResult expected = run(job_, mini_data(), run_options(RunMode::kThreaded, 3));
  for (RunMode mode : kModes) {
    RunOptions options = run_options(mode, 3);
    options.storage.fault = [](const IoRequest& request) -> std::optional<std::int64_t> {
      return request.kind == IoKind::kReserve ? std::nullopt : std::optional<std::int64_t>(4096);
    };
    const RunResult result = run(job_, mini_data(), options);
    for (State state : kStates)
      EXPECT_FALSE(largest_difference(job_, expected.memory, job_, result.memory, state));
  }
}

TEST_F(StorageFaults, AFileThatIsRemovedDuringTheRun) {
  for (RunMode mode : kModes) {
    RunOptions options = run_options(mode);
    options.step_done = [this](std::int64_t step, const StepResult&) {
      if (step == 3) std::filesystem::remove(files().front());
    };
    EXPECT_THAT(failure(options), HasSubstr("was removed during the run, expected to keep it"));
  }
}

TEST_F(StorageFaults, AFileThatIsShortenedDuringTheRun) {
  for (RunMode mode : kModes) {
    RunOptions options = run_options(mode);
    options.step_done = [this](std::int64_t step, const StepResult&) {
      if (step == 3) std::filesystem::resize_file(files().front(), 0);
    };
    EXPECT_THAT(failure(options), HasSubstr("rank"));
  }
}

TEST_F(StorageFaults, AMissingDirectory) {
  RunOptions options = run_options(RunMode::kThreaded);
  options.storage.directory += "/nowhere";
  EXPECT_EQ(failure(options), options.storage.directory +
                                  ": No such file or directory, expected a directory for the files "
                                  "of the NVMe tier");
}

TEST_F(StorageFaults, FailuresElsewhereLeaveNoFileEither) {
  for (RunMode mode : kModes) {
    RunOptions options = run_options(mode);
    options.observer = [](const NodeEvent& event) {
      if (event.step == 2) throw_bad_input("disk on fire");
    };
    EXPECT_THROW(run(job_, mini_data(), options), Error);
    EXPECT_THAT(files(), IsEmpty());
  }
}

TEST_F(StorageFaults, AnInterruptedRunLeavesNoFile) {
  for (RunMode mode : kModes) {
    RunOptions options = run_options(mode, 1000);
    std::atomic<int> polls = 0;
    options.interruption.between_steps = [&] { return ++polls > 50; };
    const RunResult result = run(job_, mini_data(), options);
    EXPECT_TRUE(result.interrupted);
    EXPECT_GT(result.steps.size(), 0u);
    EXPECT_THAT(files(), IsEmpty());
  }
}

TEST_F(StorageFaults, ARunRemovesWhatAKilledOneLeft) {
  std::ofstream(folder_ / "zplan-1-0-rank0.slab") << "left behind";
  run(job_, mini_data(), run_options(RunMode::kThreaded, 1));
  EXPECT_THAT(files(), IsEmpty());
}

}  // namespace
}  // namespace zplan::exec
