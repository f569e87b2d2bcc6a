#include "exec/offload/io_engine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "exec/memory/slab.h"
#include "exec/offload/slab_file.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using testing::device_error;
using ::testing::HasSubstr;

constexpr Bytes kFileSize{std::int64_t{40} << 20};

// With io_uring where it is to be had, and with pread and pwrite.
class IoEngineBy : public testing::StorageFolder, public ::testing::WithParamInterface<IoMethod> {
 protected:
  std::unique_ptr<IoEngine> engine(IoFault fault = {}) {
    StorageOptions chosen = options(std::move(fault));
    chosen.method = GetParam();
    return make_io_engine(chosen);
  }

  SlabFile file_{options(), 0, kFileSize};
};

INSTANTIATE_TEST_SUITE_P(Methods, IoEngineBy, ::testing::Values(IoMethod::kAuto, IoMethod::kPosix),
                         [](const auto& info) { return name(info.param); });

// Bytes that say where they are.
void fill(const Slab& memory, std::uint64_t seed) {
  for (std::int64_t i = 0; i + 8 <= memory.size().value; i += 8) {
    const std::uint64_t word = seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(i);
    std::memcpy(memory.data() + i, &word, sizeof word);
  }
}

void clear(const Slab& memory) {
  std::memset(memory.data(), 0, static_cast<std::size_t>(memory.size().value));
}

bool same(const Slab& a, const Slab& b, std::int64_t bytes) {
  return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(bytes)) == 0;
}

constexpr std::int64_t kMib = 1 << 20;

TEST_P(IoEngineBy, ReadsBackWhatItWroteAndTouchesNoByteBeyondIt) {
  const auto io = engine();
  for (std::int64_t bytes : {std::int64_t{1}, std::int64_t{4095}, std::int64_t{4096},
                             std::int64_t{4097}, kMib, kMib + 1, 3 * kMib + 5000, 37 * kMib + 8}) {
    for (Bytes offset : {Bytes{0}, Bytes{3 * 4096}}) {
      const Slab out(Bytes{bytes + 8192}), in(Bytes{bytes + 8192});
      fill(out, static_cast<std::uint64_t>(bytes));
      clear(in);
      io->write(file_, offset, Bytes{bytes}, out.data());
      io->read(file_, offset, Bytes{bytes}, in.data());
      ASSERT_TRUE(same(in, out, bytes)) << bytes;
      ASSERT_TRUE(std::all_of(in.data() + bytes, in.data() + bytes + 8192, [](std::byte b) {
        return b == std::byte{0};
      })) << bytes;
    }
  }
}

TEST_P(IoEngineBy, WritesNothingBeyondTheLastUnit) {
  const auto io = engine();
  const Slab all(Bytes{4 * 4096}), one(Bytes{4096}), in(Bytes{4 * 4096});
  fill(all, 1);
  fill(one, 2);
  io->write(file_, Bytes{0}, Bytes{4 * 4096}, all.data());
  io->write(file_, Bytes{4096}, Bytes{5000}, all.data());
  io->write(file_, Bytes{4096}, Bytes{100}, one.data());
  io->read(file_, Bytes{0}, Bytes{4 * 4096}, in.data());
  EXPECT_EQ(std::memcmp(in.data(), all.data(), 4096), 0);
  EXPECT_EQ(std::memcmp(in.data() + 4096, one.data(), 100), 0);
  EXPECT_EQ(std::memcmp(in.data() + 2 * 4096, all.data() + 4096, 5000 - 4096), 0);
  EXPECT_EQ(std::memcmp(in.data() + 3 * 4096, all.data() + 3 * 4096, 4096), 0);
}

TEST_P(IoEngineBy, GoesOnAfterShortReadsAndWrites) {
  std::atomic<int> asked = 0;
  const auto io = engine([&](const IoRequest& request) -> std::optional<std::int64_t> {
    ++asked;
    if (request.bytes <= kMib / 4) return std::nullopt;
    return request.bytes / 3 / 4096 * 4096;
  });
  const Slab out(Bytes{5 * kMib}), in(Bytes{5 * kMib});
  fill(out, 7);
  clear(in);
  io->write(file_, Bytes{0}, Bytes{5 * kMib - 100}, out.data());
  io->read(file_, Bytes{0}, Bytes{5 * kMib - 100}, in.data());
  EXPECT_TRUE(same(in, out, 5 * kMib - 100));
  // Of 256 units 171, 114, 76 and 51 are left; and each way one request for the broken unit.
  EXPECT_EQ(asked, 2 * (5 * 5 + 1));
}

TEST_P(IoEngineBy, AsksAgainAfterAnInterruption) {
  std::atomic<int> asked = 0;
  const auto io = engine([&](const IoRequest&) -> std::optional<std::int64_t> {
    if (++asked % 2 == 0) return std::nullopt;
    return asked % 4 == 1 ? -EINTR : -EAGAIN;
  });
  const Slab out(Bytes{2 * kMib}), in(Bytes{2 * kMib});
  fill(out, 9);
  io->write(file_, Bytes{0}, Bytes{2 * kMib}, out.data());
  io->read(file_, Bytes{0}, Bytes{2 * kMib}, in.data());
  EXPECT_TRUE(same(in, out, 2 * kMib));
}

TEST_P(IoEngineBy, AnErrorNamesTheFileAndWhereAndLeavesTheEngineUsable) {
  std::atomic<bool> is_broken = true;
  const auto io = engine([&](const IoRequest& request) -> std::optional<std::int64_t> {
    if (is_broken && request.offset == 2 * kMib) return -EIO;
    return std::nullopt;
  });
  const Slab memory(Bytes{8 * kMib});
  fill(memory, 3);
  EXPECT_EQ(device_error([&] { io->write(file_, Bytes{0}, Bytes{8 * kMib}, memory.data()); }),
            file_.path() + ": cannot write 1048576 bytes at byte 2097152: Input/output error");
  EXPECT_EQ(device_error([&] { io->read(file_, Bytes{0}, Bytes{8 * kMib}, memory.data()); }),
            file_.path() + ": cannot read 1048576 bytes at byte 2097152: Input/output error");
  is_broken = false;
  io->write(file_, Bytes{0}, Bytes{8 * kMib}, memory.data());
}

TEST_P(IoEngineBy, AFullDiskIsAnError) {
  const auto io = engine([](const IoRequest&) { return -ENOSPC; });
  const Slab memory(Bytes{4096});
  EXPECT_THAT(device_error([&] { io->write(file_, Bytes{0}, Bytes{4096}, memory.data()); }),
              HasSubstr("No space left on device"));
}

// Failures that are made come to an end last first.
TEST_P(IoEngineBy, OfSeveralFailuresTheFirstIsTold) {
  std::int64_t asked_last = 0;
  const auto io = engine([&](const IoRequest& request) {
    asked_last = request.offset;
    return -EIO;
  });
  const Slab memory(Bytes{4 * kMib});
  fill(memory, 4);
  const std::string told =
      device_error([&] { io->write(file_, Bytes{0}, Bytes{4 * kMib}, memory.data()); });
  EXPECT_EQ(told, file_.path() + ": cannot write 1048576 bytes at byte " +
                      std::to_string(asked_last) + ": Input/output error");
}

// Within a unit, too: what is there of it is read again and again, but not without end.
TEST_P(IoEngineBy, AFileThatEndsTooEarlyIsAnError) {
  int asked = 0;
  const auto io = engine([&](const IoRequest&) -> std::optional<std::int64_t> {
    return ++asked < 100 ? std::nullopt : std::optional<std::int64_t>{-EIO};
  });
  const Slab memory(Bytes{2 * kMib});
  for (const int size : {4096, 4096 + 100}) {
    ASSERT_EQ(ftruncate(file_.descriptor(), size), 0);
    EXPECT_EQ(device_error([&] { io->read(file_, Bytes{0}, Bytes{kMib}, memory.data()); }),
              file_.path() +
                  ": cannot read 1044480 bytes at byte 4096: the file ends there, "
                  "expected 41943040 bytes");
  }
}

TEST_P(IoEngineBy, TwoEnginesWorkOnOneFileAtATime) {
  constexpr int kRounds = 20;
  const auto reader = engine(), writer = engine();
  const Slab out(Bytes{4 * kMib}), other(Bytes{4 * kMib}), in(Bytes{4 * kMib});
  fill(out, 1);
  fill(other, 2);
  writer->write(file_, Bytes{0}, Bytes{4 * kMib}, out.data());
  const std::jthread writing([&] {
    for (int i = 0; i < kRounds; ++i)
      writer->write(file_, Bytes{8 * kMib}, Bytes{4 * kMib}, other.data());
  });
  for (int i = 0; i < kRounds; ++i) {
    reader->read(file_, Bytes{0}, Bytes{4 * kMib}, in.data());
    ASSERT_TRUE(same(in, out, 4 * kMib));
  }
}

// Of blocks of another transfer, of one that is written over, and of the last, broken one.
TEST_P(IoEngineBy, ABitThatChangedInTheFileIsAnError) {
  const auto io = engine();
  constexpr std::int64_t kBytes = 2 * kMib + 5000;
  const Slab out(Bytes{kBytes + 8192}), in(Bytes{kBytes + 8192});
  fill(out, 3);
  io->write(file_, Bytes{8192}, Bytes{kBytes}, out.data());
  io->write(file_, Bytes{8192 + kMib}, Bytes{8192}, out.data());
  for (const std::int64_t place : {std::int64_t{8192}, 8192 + kMib + 4100, 8192 + kBytes - 1}) {
    const auto flip = [&] {
      const int file = ::open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
      char byte = 0;
      ASSERT_EQ(::pread(file, &byte, 1, place), 1);
      byte = static_cast<char>(byte ^ 16);
      ASSERT_EQ(::pwrite(file, &byte, 1, place), 1);
      ASSERT_EQ(::fsync(file), 0);
      ::close(file);
    };
    flip();
    const std::string line =
        device_error([&] { io->read(file_, Bytes{8192}, Bytes{kBytes}, in.data()); });
    EXPECT_THAT(line, HasSubstr(file_.path() + ": the 4096 bytes at byte " +
                                std::to_string(place / 4096 * 4096) +
                                " are not those that were written there"));
    flip();
    io->read(file_, Bytes{8192}, Bytes{kBytes}, in.data());
  }
}

// What nobody has written is nobody's to check.
TEST_P(IoEngineBy, BlocksThatWereNeverWrittenMayHoldAnything) {
  const auto io = engine();
  const Slab in(Bytes{8192});
  io->write(file_, Bytes{4096}, Bytes{4096}, in.data());
  const int file = ::open(file_.path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::pwrite(file, "x", 1, 0), 1);
  ::close(file);
  io->read(file_, Bytes{0}, Bytes{8192}, in.data());
  EXPECT_EQ(in.data()[0], std::byte{'x'});
}

class IoMethods : public testing::StorageFolder {};

TEST_F(IoMethods, PosixIsUsedWhenAskedFor) {
  StorageOptions chosen = options();
  chosen.method = IoMethod::kPosix;
  const auto engine = make_io_engine(chosen);
  EXPECT_EQ(engine->method(), IoMethod::kPosix);
  EXPECT_EQ(engine->reason(), "asked for");
}

TEST_F(IoMethods, AutoAlwaysWorksAndSaysWhy) {
  const auto engine = make_io_engine(options());
  EXPECT_NE(engine->method(), IoMethod::kAuto);
  EXPECT_NE(engine->reason(), "");
}

TEST_F(IoMethods, ManyBlocksOfATransferAreInFlightAtOnce) {
  if (make_io_engine(options())->method() != IoMethod::kUring) GTEST_SKIP() << "no io_uring here";
  std::mutex mutex;
  std::set<std::int64_t> asked;
  const SlabFile file(options(), 0, kFileSize);
  // The first block is never done, so what is asked for is what fits beside it.
  const auto io = make_io_engine(options([&](const IoRequest& request) {
    const std::lock_guard lock(mutex);
    asked.insert(request.offset / kIoBlock);
    return request.offset == 0 && asked.size() < kIoDepth ? std::optional<std::int64_t>(-EAGAIN)
                                                          : std::nullopt;
  }));
  const Slab memory(kFileSize);
  io->read(file, Bytes{0}, kFileSize, memory.data());
  EXPECT_EQ(asked.size(), 40u);
}

}  // namespace
}  // namespace zplan::exec
