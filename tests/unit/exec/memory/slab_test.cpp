#include "exec/memory/slab.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "exec/cpu/cpu_device.h"
#include "exec/memory/poison.h"
#include "exec/offload/slab_file.h"
#include "planner/core/error.h"
#include "tests/support/meshes.h"
#include "tests/unit/exec/mini_job.h"

namespace zplan::exec {
namespace {

// Several cores fill it, part by part.
TEST(Slab, IsFullOfPoisonToItsEnd) {
  const Slab slab(Bytes{(std::int64_t{33} << 20) + 8192});
  for (std::int64_t i = 0; i < slab.size().value; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, slab.data() + i, sizeof word);
    ASSERT_EQ(word, kPoisonPair) << i;
  }
}

TEST(Slab, IsPageAlignedAndFullOfPoison) {
  const Slab slab(Bytes{10000});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab.data()) % 4096, 0u);
  EXPECT_GE(slab.size().value, 10000);
  for (std::int64_t i = 0; i + 8 <= slab.size().value; i += 8) {
    float f;
    double d;
    std::int32_t token;
    std::memcpy(&f, slab.data() + i, sizeof f);
    std::memcpy(&d, slab.data() + i, sizeof d);
    std::memcpy(&token, slab.data() + i, sizeof token);
    ASSERT_TRUE(std::isnan(f));
    ASSERT_TRUE(std::isnan(d));
    ASSERT_LT(token, 0);
  }
}

TEST(Slab, OfNoBytesHasNoMemory) {
  const Slab slab(Bytes{0});
  EXPECT_EQ(slab.data(), nullptr);
}

TEST(Slab, MovesItsMemory) {
  Slab a(Bytes{4096});
  std::byte* data = a.data();
  Slab b(std::move(a));
  EXPECT_EQ(b.data(), data);
  Slab c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
}

TEST(Slab, ThatIsTooLargeIsADeviceError) {
  try {
    Slab slab(Bytes{std::int64_t{1} << 60});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
  }
}

TEST(SlabDeathTest, TouchingOneThatIsNotAccessibleIsAFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Slab slab(Bytes{4096});
  slab.set_accessible(false);
  EXPECT_DEATH(slab.data()[0] = std::byte{1}, "");
  slab.set_accessible(true);
  slab.data()[0] = std::byte{1};
}

TEST(RankMemory, AddressesFollowBufferSlotOffsetAndCoordinates) {
  Job job;
  job.mesh = testing_support::mesh_of({.dp = 4, .tp = 2, .shards = 2});
  RankClass c;
  c.program.buffers = {{.name = "a", .slot_size = Bytes{4096}, .tier = Tier::kCpu},
                       {.name = "b", .slot_size = Bytes{8192}, .slots = 3, .tier = Tier::kCpu}};
  c.placement.offset = {Bytes{0}, Bytes{4096}};
  c.placement.slab[static_cast<std::size_t>(Tier::kCpu)] = Bytes{32768};
  job.classes = {c};
  const View view{
      .buffer = 1, .slot = {1, 1, 2, 1}, .offset = Bytes{64}, .strides = {128, 1024}, .shape = {4}};
  const Env env{.micro = 1, .layer = 2, .tile = 1};  // slot (1 + 1 + 4 + 1) mod 3 = 1
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    const RankMemory memory(job, rank);
    const std::int64_t expected = 4096 + 8192 + 64 + (rank / 2 % 2) * 1024 + (rank % 2) * 128;
    EXPECT_EQ(memory.address(view, env) - memory.slab(Tier::kCpu).data(), expected);
    EXPECT_EQ(memory.offset(view, env).value, expected);
    EXPECT_EQ(memory.slab(Tier::kGpu).data(), nullptr);
    EXPECT_EQ(memory.file(), nullptr);
  }
}

TEST(RankMemory, OnNvmeHasOffsetsButNoAddresses) {
  const Job job = testing::mini_job({.dp = 2, .shard_optimizer = true, .on_nvme = true});
  const RankMemory memory(job, 1, {.directory = ::testing::TempDir()});
  const UnitHome& home = job.classes[0].homes[0];
  EXPECT_EQ(memory.slot_address(home.moments[0].buffer, 0), nullptr);
  EXPECT_EQ(memory.slot_offset(home.moments[0].buffer, 0).value % 4096, 0);
  ASSERT_NE(memory.file(), nullptr);
  EXPECT_EQ(memory.file()->size(), job.classes[0].placement.slab[2]);
}

TEST(RankMemory, OnNvmeNeedsADirectory) {
  const Job job = testing::mini_job({.on_nvme = true});
  try {
    const RankMemory memory(job, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
  }
}

constexpr std::int32_t kRanks[] = {0, 1, 2, 3};

// Of which memory holds a thousandth: the checksums.
TEST(CheckMemorySuffices, CountsOfNvmeTheChecksumsAlone) {
  Job job = testing::mini_job({.dp = 4});
  Bytes& slab = job.classes[0].placement.slab[static_cast<std::size_t>(Tier::kNvme)];
  slab = available_memory() * 16;
  check_memory_suffices(job, kRanks, cpu::CpuDevice());
  slab = available_memory() * 512;  // four ranks with twice the memory
  EXPECT_THROW(check_memory_suffices(job, kRanks, cpu::CpuDevice()), Error);
}

TEST(CheckMemorySuffices, RefusesMoreThanTheMachineHas) {
  Job job = testing::mini_job({.dp = 4});
  check_memory_suffices(job, kRanks, cpu::CpuDevice());
  job.classes[0].placement.slab[0] = Bytes{std::int64_t{1} << 44};
  try {
    check_memory_suffices(job, kRanks, cpu::CpuDevice());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("4 ranks need 65536.00 GiB of memory, ")) << what;
    EXPECT_TRUE(what.ends_with(" GiB are available here")) << what;
  }
}

TEST(CheckMemorySuffices, RefusesMoreThan64BitsCanCount) {
  Job job = testing::mini_job({.dp = 4});
  job.classes[0].placement.slab[0] = Bytes{std::int64_t{1} << 62};
  EXPECT_THROW(check_memory_suffices(job, kRanks, cpu::CpuDevice()), Error);
}

}  // namespace
}  // namespace zplan::exec
