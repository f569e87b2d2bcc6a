// Checkpoints of a run as its folder shows them: what they are called, which are kept, what a
// damaged one does, and what happens when they cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/loader.h"
#include "exec/cpu/cpu_backend.h"
#include "exec/cpu/cpu_device.h"
#include "exec/memory/state_access.h"
#include "exec/run.h"
#include "planner/program/kernels/kernel_set.h"
#include "tests/unit/exec/mini_job.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::mini_data;
using ::testing::UnorderedElementsAre;

class Checkpoints : public testing::StorageFolder {
 protected:
  std::string path(const std::string& name = "kept") const { return (folder_ / name).string(); }

  RunOptions saving(int steps, std::int64_t every, std::int64_t keep = 0) {
    RunOptions options = testing::mini_run(RunMode::kThreaded, steps);
    options.save = {.folder = path(), .every = every, .keep = keep};
    options.say = [this](const std::string& line) { lines_.push_back(line); };
    return options;
  }
  RunOptions resuming(int steps) {
    RunOptions options = testing::mini_run(RunMode::kThreaded, steps);
    options.resume.path = path();
    options.say = [this](const std::string& line) { lines_.push_back(line); };
    return options;
  }
  RunResult train(const RunOptions& options) const { return run(job_, mini_data(), options); }

  // Of all that is in the folder.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path()))
      all.push_back(entry.path().filename().string());
    return all;
  }
  // Of a finished checkpoint.
  std::string file(std::int64_t step, const std::string& name) const {
    return path_in(path_in(path(), checkpoint_name(step)), name);
  }
  static std::string content(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }
  static void flip(const std::string& file, std::size_t byte) {
    std::string text = content(file);
    text.at(byte) = static_cast<char>(text[byte] ^ 1);
    write(file, text);
  }
  void expect_same_states(const RunResult& a, const RunResult& b) const {
    for (const State state : kStates)
      EXPECT_EQ(largest_difference(job_, a.memory, job_, b.memory, state, Equality::kBits),
                std::nullopt)
          << name(state);
  }
  // The newest checkpoint is no good: the line names the file, and the one before it is taken.
  void expect_the_one_before(const std::string& named) {
    lines_.clear();
    const RunResult result = train(resuming(4));
    EXPECT_EQ(result.begin.step, 2);
    ASSERT_THAT(lines_, ElementsAre(HasSubstr(named)));
    EXPECT_THAT(lines_.front(), AllOf(HasSubstr("step-000004"), HasSubstr("before it is tried")));
    expect_same_states(result, expected_);
  }

  const Job job_ = testing::mini_job({.dp = 2, .pp = 2, .shard_optimizer = true, .on_nvme = true});
  const RunResult expected_ = train(testing::mini_run(RunMode::kThreaded, 4));
  std::vector<std::string> lines_;
};

TEST_F(Checkpoints, AreFoldersNamedByTheirStep) {
  train(saving(5, 2));
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(2, 4, 5));
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_EQ(checkpoint_name(20), "step-000020");
  EXPECT_EQ(checkpoint_step("step-12345678"), 12345678);
  for (const char* other : {"step-20", "step-000020x", "step--00020", ".step-000020", "000020"})
    EXPECT_EQ(checkpoint_step(other), std::nullopt) << other;
}

TEST_F(Checkpoints, BelongToTheirOwnerAlone) {
  train(saving(1, 0));
  for (const char* name : {"checkpoint.json", "rank-00000.json", "rank-00003.bin"}) {
    struct stat info {};
    ASSERT_EQ(stat(file(1, name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(Checkpoints, OfAllTheNewestAreKept) {
  train(saving(7, 1, 3));
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(5, 6, 7));
}

TEST_F(Checkpoints, OfLaterStepsAreNotAmongThoseKept) {
  for (const std::int64_t step : {1, 2, 3, 9})
    std::filesystem::create_directories(path_in(path(), checkpoint_name(step)));
  prune_checkpoints(path(), 3, 2);
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(2, 3, 9));
}

// The states are as they are where the updates of steps 3 and 4 were skipped.
TEST_F(Checkpoints, WithTheSameStatesTakeThePlaceOfOneAnother) {
  namespace fs = std::filesystem;
  train(saving(2, 1));
  const auto step = [&](std::int64_t s) { return path_in(path(), checkpoint_name(s)); };
  fs::copy(step(2), step(3), fs::copy_options::recursive);
  prune_checkpoints(path(), 3, 2);
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(1, 3));
  fs::copy(step(3), step(4), fs::copy_options::recursive);
  prune_checkpoints(path(), 4, 2);
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(1, 4));
  fs::copy(step(4), step(5), fs::copy_options::recursive);
  flip(file(4, "rank-00003.json"), 40);  // nobody knows what it holds
  prune_checkpoints(path(), 5, 2);
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(4, 5));
}

// Were it removed under its own name, what is left when the power fails would be taken for whole.
TEST_F(Checkpoints, OldOnesLoseTheirNameBeforeTheirFiles) {
  for (const std::int64_t step : {1, 2})
    std::filesystem::create_directories(path_in(path(), checkpoint_name(step)));
  const int events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(inotify_add_watch(events, path().c_str(), IN_MOVED_FROM | IN_DELETE), 0);
  prune_checkpoints(path(), 2, 1);
  alignas(inotify_event) char buffer[4096];
  const ssize_t bytes = ::read(events, buffer, sizeof buffer);
  ::close(events);
  ASSERT_GT(bytes, 0);
  const auto& first = *reinterpret_cast<const inotify_event*>(buffer);
  EXPECT_EQ(first.mask & IN_MOVED_FROM, IN_MOVED_FROM);
  EXPECT_EQ(std::string(first.name), checkpoint_name(1));
}

// What does not fit beside the states is written from where they are.
TEST_F(Checkpoints, WithoutMemoryForCopiesHaveTheSameBits) {
  RunOptions options = saving(3, 2);
  options.save.most_staging = {0};
  const RunResult saved = train(options);
  EXPECT_FALSE(saved.saves->aside);
  EXPECT_EQ(saved.saves->staging, Bytes{0});
  const RunResult result = train(resuming(4));
  EXPECT_EQ(result.begin.step, 3);
  expect_same_states(result, expected_);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Checkpoints, GoOnWithTheNewestAndEndWithTheSameBits) {
  train(saving(3, 2));
  RunOptions options = saving(4, 2);
  options.resume.path = path();
  const RunResult result = train(options);
  EXPECT_EQ(result.begin.step, 3);
  EXPECT_EQ(result.begin.samples, 3 * job_.global_batch);
  ASSERT_EQ(result.steps.size(), 1u);
  EXPECT_EQ(result.steps[0].loss, expected_.steps[3].loss);
  expect_same_states(result, expected_);
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(2, 3, 4));
}

// The CPU, as a device that has several kernels for one thing: each backend takes what was taken
// before, else another one than any before it.
class DeviceThatChooses : public cpu::CpuDevice {
 public:
  std::unique_ptr<Backend> make_backend(const Job& job, std::int32_t rank, int threads,
                                        const KnownChoices& known) override {
    const auto taken = known.find("key");
    return std::make_unique<Chooses>(
        job.class_of(rank).program, find_kernel_set(job.kernel_set).compute, threads,
        taken == known.end() ? std::to_string(next_++) : taken->second);
  }
  void count_from(int next) { next_ = next; }

 private:
  class Chooses : public cpu::CpuBackend {
   public:
    Chooses(const Program& program, DType compute, int threads, std::string taken)
        : CpuBackend(program, compute, threads), taken_(std::move(taken)) {}
    std::vector<KernelChoice> choices() const override {
      return {{.operation = "op", .kernel = "k" + taken_, .key = "key", .value = taken_}};
    }

   private:
    std::string taken_;
  };
  int next_ = 0;
};

TEST_F(Checkpoints, KeepTheKernelsThatWereChosen) {
  const auto device = std::make_shared<DeviceThatChooses>();
  device->count_from(5);
  RunOptions options = saving(2, 1);
  options.device = device;
  ASSERT_EQ(train(options).choices.size(), 1u);
  device->count_from(8);
  options = resuming(3);
  options.device = device;
  options.record_timeline = true;
  RunResult result = train(options);
  ASSERT_EQ(result.choices.size(), 1u);
  EXPECT_EQ(result.choices[0].value, "5");
  EXPECT_THAT(result.timeline.kernels, ElementsAre(std::pair("op", "k5")));
  options.choices = {{"key", "7"}};  // what is asked for comes first
  EXPECT_EQ(train(options).choices[0].value, "7");
  write(file(2, "rank-00000.json"), "");  // the one before it has the states
  options.choices.clear();
  EXPECT_EQ(train(options).choices[0].value, "5");
}

TEST_F(Checkpoints, AFolderWithoutAnyBeginsTheTraining) {
  EXPECT_EQ(train(resuming(1)).begin.step, 0);  // there is no folder
  std::filesystem::create_directory(path());
  EXPECT_EQ(train(resuming(1)).begin.step, 0);
}

TEST_F(Checkpoints, KeepTheirSeed) {
  RunOptions options = saving(2, 2);
  options.train.seed = 7;
  train(options);
  options = testing::mini_run(RunMode::kThreaded, 4);
  options.train.seed = 7;
  const RunResult expected = train(options);
  const RunResult result = train(resuming(4));
  EXPECT_EQ(result.begin.seed, 7u);
  expect_same_states(result, expected);
}

TEST_F(Checkpoints, AreLeftForTheOneBeforeWhenTheyAreDamaged) {
  train(saving(4, 2));
  const std::string bin = file(4, "rank-00001.bin"), index = file(4, "rank-00002.json");
  const std::string header = file(4, "checkpoint.json");
  for (const std::string& each : {bin, index, header}) {
    const std::string good = content(each);
    flip(each, good.size() / 3);
    expect_the_one_before(each);
    write(each, good.substr(0, good.size() - 1));
    expect_the_one_before(each);
    write(each, "");
    expect_the_one_before(each);
    std::filesystem::remove(each);
    expect_the_one_before(each);
    std::filesystem::create_symlink("/dev/zero", each);
    expect_the_one_before(each);
    std::filesystem::remove(each);
    write(each, good);
  }
  lines_.clear();
  EXPECT_EQ(train(resuming(4)).begin.step, 4);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Checkpoints, OfWhichNoneIsGoodAreRefused) {
  train(saving(4, 2));
  for (const std::int64_t step : {2, 4}) std::filesystem::remove(file(step, "rank-00000.bin"));
  try {
    train(resuming(4));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("none of its 2 checkpoints is good"));
  }
}

TEST_F(Checkpoints, OneThatIsNamedIsTheOnlyOneTried) {
  train(saving(4, 2));
  RunOptions options = resuming(4);
  options.resume.path = path() + "/step-000002/";
  EXPECT_EQ(train(options).begin.step, 2);
  std::filesystem::remove(file(2, "rank-00003.bin"));
  EXPECT_THROW(train(options), Error);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Checkpoints, OneThatCannotBeWrittenIsToldAndTrainingGoesOn) {
  for (const IoKind kind : {IoKind::kReserve, IoKind::kWrite}) {
    for (const int error : {ENOSPC, EIO, EFBIG}) {
      std::filesystem::remove_all(path());
      lines_.clear();
      train(saving(1, 0));
      RunOptions options = saving(4, 2);
      int left = 1;  // requests that fail
      options.save.fault = [&](const IoRequest& request) -> std::optional<std::int64_t> {
        if (request.kind == kind && left-- > 0) return -error;
        return std::nullopt;
      };
      const RunResult result = train(options);
      expect_same_states(result, expected_);
      EXPECT_THAT(lines_, ElementsAre(AllOf(HasSubstr("the checkpoint of step 2"),
                                            HasSubstr(strerror(error)))));
      EXPECT_THAT(checkpoint_steps(path()), ElementsAre(1, 4));
      EXPECT_EQ(result.saves->failed, 1);
      EXPECT_FALSE(result.saves->last_failed);
    }
  }
}

TEST_F(Checkpoints, WritesInPartsAreFinished) {
  RunOptions options = saving(2, 0);
  options.save.fault = [](const IoRequest& request) -> std::optional<std::int64_t> {
    if (request.kind != IoKind::kWrite || request.bytes <= 4096) return std::nullopt;
    return 4096;
  };
  train(options);
  EXPECT_EQ(train(resuming(2)).begin.step, 2);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Checkpoints, TwoRunsDoNotSaveInOneFolder) {
  const FolderLock lock(path());
  try {
    train(saving(1, 0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("another run saves there"));
  }
}

TEST_F(Checkpoints, WhatAKilledRunLeftHalfDoneIsRemoved) {
  write_durably(partial_folder((std::filesystem::create_directory(path()), path()), 3), "x", "y");
  EXPECT_THAT(checkpoint_steps(path()), IsEmpty());
  train(saving(1, 0));
  EXPECT_THAT(names(), UnorderedElementsAre(".lock", "step-000001"));
}

TEST_F(Checkpoints, OfTheSameStepTheNewOneStays) {
  train(saving(2, 1));
  flip(file(2, "rank-00000.bin"), 0);
  RunOptions options = saving(2, 1);
  options.resume.path = path();
  EXPECT_EQ(train(options).begin.step, 1);
  EXPECT_THAT(names(), UnorderedElementsAre(".lock", "step-000001", "step-000002"));
  lines_.clear();
  EXPECT_EQ(train(resuming(2)).begin.step, 2);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Checkpoints, AnInterruptedRunIsKept) {
  RunOptions options = saving(100, 0);
  int asked = 0;
  options.interruption.between_steps = [&] { return ++asked > 20; };
  const RunResult result = train(options);
  EXPECT_TRUE(result.interrupted);
  EXPECT_THAT(checkpoint_steps(path()),
              ElementsAre(static_cast<std::int64_t>(result.steps.size())));
}

// Lanes that have ended the step which is given up stand at the border behind it.
TEST_F(Checkpoints, OfAStepThatIsGivenUpThereIsNone) {
  for (const RunMode mode : {RunMode::kThreaded, RunMode::kSerial}) {
    std::filesystem::remove_all(path());
    RunOptions options = saving(100, 1);
    options.mode = mode;
    const RunResult result = testing::run_interrupted(
        job_, options, [](const NodeEvent& event) { return testing::is_backward(event, 1); });
    EXPECT_TRUE(result.gave_up_step);
    EXPECT_THAT(checkpoint_steps(path()), ElementsAre(1, 2));
    expect_same_states(result, train(testing::mini_run(RunMode::kThreaded, 2)));
  }
}

TEST_F(Checkpoints, OfAnotherModelAreRefused) {
  train(saving(2, 2));
  const Job other = testing::mini_job({.kernel_set = "cpu.f32"});
  RunOptions options = resuming(2);
  EXPECT_EQ(run(other, mini_data(), options).begin.step, 2);  // other numbers of ranks and bits
  Job wider = testing::mini_job({});
  for (Unit& unit : wider.units) unit.tensors.front().name += ".other";
  EXPECT_THROW(run(wider, mini_data(), options), Error);
  Job turned = testing::mini_job({});
  Shape& shape = turned.units.front().tensors.front().shape;
  std::swap(shape.dims[0], shape.dims[1]);
  EXPECT_THROW(run(turned, mini_data(), options), Error);
}

TEST_F(Checkpoints, AGuardedRunIsNotSaved) {
  RunOptions options = saving(1, 0);
  options.mode = RunMode::kSerial;
  options.guard = true;
  EXPECT_THROW(train(options), Error);
  options.guard = false;
  train(options);
  EXPECT_THAT(checkpoint_steps(path()), ElementsAre(1));
}

}  // namespace
}  // namespace zplan::exec
