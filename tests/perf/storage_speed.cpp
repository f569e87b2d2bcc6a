// Streams to and from the NVMe tier against fio and a plain loop on the same disk, in one run.
// Prints a line of JSON for each direction; asserts nothing. 0 stands for a fio that is not there.
//
//   perf_storage_speed DIRECTORY [RUNS [auto|uring|posix]]
//
// Goal: at least 85 % of the better of
//   fio         the same block (1 MiB) and depth (32), O_DIRECT; left out where it is not installed
//   plain loop  as many threads as the depth, each in a loop of pread or pwrite, O_DIRECT
// on a file of 1 GiB in DIRECTORY. Best of RUNS (default 5) each, taken in turns.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exec/memory/slab.h"
#include "exec/offload/io_engine.h"
#include "exec/offload/slab_file.h"

namespace zplan::exec {
namespace {

constexpr double kGoal = 0.85;
constexpr std::int64_t kFile = std::int64_t{1} << 30;
constexpr std::int64_t kCopy = std::int64_t{64} << 20;  // bytes of one copy of a run

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Like fio's data: drives may store patterns faster.
void fill_randomly(const Slab& memory) {
  std::mt19937_64 words(1);
  for (std::int64_t i = 0; i < memory.size().value; i += 8) {
    const std::uint64_t word = words();
    std::memcpy(memory.data() + i, &word, sizeof word);
  }
}

// Bytes per second.
double stream(IoEngine& engine, const SlabFile& file, const Slab& memory, IoKind kind) {
  const double seconds = seconds_of([&] {
    for (std::int64_t at = 0; at < kFile; at += kCopy) {
      if (kind == IoKind::kRead) {
        engine.read(file, Bytes{at}, Bytes{kCopy}, memory.data());
      } else {
        engine.write(file, Bytes{at}, Bytes{kCopy}, memory.data());
      }
    }
  });
  return static_cast<double>(kFile) / seconds;
}

class Opponent {
 public:
  explicit Opponent(const std::string& directory)
      : path_(directory + "/zplan-storage-speed.tmp"),
        has_fio_(std::system("fio --version > /dev/null 2>&1") == 0) {}
  ~Opponent() { ::unlink(path_.c_str()); }
  Opponent(const Opponent&) = delete;
  Opponent& operator=(const Opponent&) = delete;

  double fio(IoKind kind, IoMethod method) const {
    if (!has_fio_) return 0;
    const std::string command = fmt::format(
        "fio --name=zplan --filename={} --size={} --bs={} --iodepth={} --direct=1 --ioengine={} "
        "--rw={} --overwrite=1 --output-format=terse --terse-version=3 2>/dev/null",
        path_, kFile, kIoBlock, method == IoMethod::kUring ? kIoDepth : 1,
        method == IoMethod::kUring ? "io_uring" : "psync",
        kind == IoKind::kRead ? "read" : "write");
    std::string line;
    FILE* pipe = ::popen(command.c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) line += static_cast<char>(c);
    ::pclose(pipe);
    // Terse format 3 of fio: field 7 is the read, field 48 the write bandwidth in KiB/s.
    const int field = kind == IoKind::kRead ? 6 : 47;
    std::size_t at = 0;
    for (int i = 0; i < field; ++i) at = line.find(';', at) + 1;
    return std::atof(line.c_str() + at) * 1024;
  }

  double plain(IoKind kind) const {
    const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    const Slab memory(Bytes{kIoDepth * kIoBlock});
    const double seconds = seconds_of([&] {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kIoDepth; ++i) {
        threads.emplace_back([&, i] {
          std::byte* block = memory.data() + i * kIoBlock;
          for (std::int64_t at = i * kIoBlock; at < kFile; at += kIoDepth * kIoBlock) {
            const ssize_t done = kind == IoKind::kRead ? ::pread(file, block, kIoBlock, at)
                                                       : ::pwrite(file, block, kIoBlock, at);
            if (done != kIoBlock) std::perror("plain loop");
          }
        });
      }
    });
    ::close(file);
    return static_cast<double>(kFile) / seconds;
  }

 private:
  std::string path_;
  bool has_fio_;
};

void run(const std::string& directory, int runs, IoMethod method) {
  const StorageOptions options{.directory = directory, .method = method};
  const SlabFile file(options, 0, Bytes{kFile});
  const Slab memory(Bytes{kCopy});
  fill_randomly(memory);
  const auto engine = make_io_engine(options);
  const Opponent opponent(directory);
  for (IoKind kind : {IoKind::kWrite, IoKind::kRead}) {
    double best = 0, fio = 0, plain = 0;
    for (int i = -1; i < runs; ++i) {  // one that does not count: the file's blocks are new
      const double by_fio = opponent.fio(kind, engine->method());
      const double by_plain = opponent.plain(kind);
      const double ours = stream(*engine, file, memory, kind);
      if (i < 0) continue;
      best = std::max(best, ours);
      fio = std::max(fio, by_fio);
      plain = std::max(plain, by_plain);
    }
    const double ratio = best / std::max(fio, plain);
    fmt::print(
        "{{\"what\": \"{} of {} MiB by {}, best of fio and a plain loop\", \"zplan_bytes_per_s\": "
        "{:.4g}, \"fio_bytes_per_s\": {:.4g}, \"plain_bytes_per_s\": {:.4g}, \"direct\": {}, "
        "\"runs\": {}, \"ratio\": {:.3f}, \"goal\": {:.2f}}}\n",
        kind == IoKind::kRead ? "read" : "write", kFile >> 20, name(engine->method()), best, fio,
        plain, file.is_direct(), runs, ratio, kGoal);
  }
}

}  // namespace
}  // namespace zplan::exec

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: perf_storage_speed DIRECTORY [RUNS [auto|uring|posix]]\n");
    return 2;
  }
  using zplan::exec::IoMethod;
  IoMethod method = IoMethod::kAuto;
  for (const IoMethod each : {IoMethod::kUring, IoMethod::kPosix})
    if (argc > 3 && argv[3] == name(each)) method = each;
  zplan::exec::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 5, method);
}
