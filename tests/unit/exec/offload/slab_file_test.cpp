#include "exec/offload/slab_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>

#include "planner/core/quantity.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using testing::device_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Bytes kSize{1 << 20};

class SlabFiles : public testing::StorageFolder {};

TEST_F(SlabFiles, HaveTheirSizeReservedAndANameThatSaysWhose) {
  const SlabFile file(options(), 3, kSize);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(files()[0].string(), file.path());
  EXPECT_EQ(files()[0].filename(), "zplan-" + std::to_string(getpid()) + "-0-rank3.slab");
  struct stat info {};
  ASSERT_EQ(fstat(file.descriptor(), &info), 0);
  EXPECT_EQ(info.st_size, kSize.value);
  constexpr std::int64_t kStatBlock = 512;  // bytes, as stat counts
  EXPECT_GE(info.st_blocks * kStatBlock, kSize.value);
  file.check_intact();
}

TEST_F(SlabFiles, AreReadableByTheirOwnerOnly) {
  const mode_t before = umask(0);
  const SlabFile file(options(), 0, kSize);
  umask(before);
  struct stat info {};
  ASSERT_EQ(fstat(file.descriptor(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
}

TEST_F(SlabFiles, LeaveNothingBehind) {
  { const SlabFile file(options(), 0, kSize); }
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SlabFiles, OfSeveralRunsOfOneProcessHaveNamesOfTheirOwn) {
  const SlabFile a(options(), 0, kSize), b(options(), 0, kSize);
  EXPECT_NE(a.path(), b.path());
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(SlabFiles, KeepTheirContentWithoutAName) {
  SlabFile file(options(), 0, kSize);
  file.remove_name();
  EXPECT_THAT(files(), IsEmpty());
  struct stat info {};
  ASSERT_EQ(fstat(file.descriptor(), &info), 0);
  EXPECT_EQ(info.st_size, kSize.value);
}

TEST_F(SlabFiles, SayThatTheDiskIsFullAndLeaveNothingBehind) {
  const auto full = [](const IoRequest& request) -> std::optional<std::int64_t> {
    return request.kind == IoKind::kReserve ? std::optional<std::int64_t>(-ENOSPC) : std::nullopt;
  };
  const std::string what = device_error([&] { const SlabFile file(options(full), 0, kSize); });
  EXPECT_THAT(what, HasSubstr("rank0.slab: cannot reserve " + format_bytes(kSize) + " ("));
  EXPECT_THAT(what, HasSubstr("B are free): No space left on device"));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SlabFiles, SayThatThereIsNoDirectory) {
  StorageOptions nowhere = options();
  nowhere.directory += "/nowhere";
  EXPECT_THAT(device_error([&] { const SlabFile file(nowhere, 0, kSize); }),
              HasSubstr("nowhere/zplan-"));
  EXPECT_EQ(device_error([&] { remove_leftovers(nowhere.directory); }),
            nowhere.directory +
                ": No such file or directory, expected a directory for the files of the NVMe tier");
}

TEST_F(SlabFiles, SayThatTheyWereRemoved) {
  const SlabFile file(options(), 0, kSize);
  std::filesystem::remove(file.path());
  EXPECT_EQ(device_error([&] { file.check_intact(); }),
            file.path() + ": was removed during the run, expected to keep it");
}

TEST_F(SlabFiles, SayThatTheyWereShortened) {
  const SlabFile file(options(), 0, kSize);
  std::filesystem::resize_file(file.path(), 5000);
  EXPECT_EQ(
      device_error([&] { file.check_intact(); }),
      file.path() + ": has 5000 bytes, expected 1048576; something changed it during the run");
}

TEST_F(SlabFiles, OfAKilledRunAreRemovedByTheNext) {
  const pid_t child = fork();
  if (child == 0) {
    const SlabFile file(options(), 0, kSize);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(remove_leftovers(folder_.string()), 1);
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SlabFiles, OfRunningProcessesAndOthersFilesStay) {
  const SlabFile file(options(), 0, kSize);
  for (const char* name : {"zplan-1-0-rank0.slab.bak", "zplan-x-0-rank0.slab", "data.bin"})
    std::ofstream(folder_ / name) << "precious";
  std::ofstream(folder_ / "zplan-1-0-rank0.slab") << "nobody's";
  EXPECT_EQ(remove_leftovers(folder_.string()), 1);
  EXPECT_EQ(files().size(), 4u);
  file.check_intact();
}

}  // namespace
}  // namespace zplan::exec
