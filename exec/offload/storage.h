// How a run keeps its NVMe tier: the user's choices, what became of them, and the hook with which
// tests make storage fail.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "planner/core/units.h"

namespace zplan::exec {

// kAuto: io_uring where the system has it, else pread and pwrite.
enum class IoMethod : std::uint8_t { kAuto, kUring, kPosix };

enum class IoKind : std::uint8_t { kReserve, kRead, kWrite };
struct IoRequest {
  IoKind kind = IoKind::kRead;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
// Asked ahead of every request to the system. Nothing: as usual. A negative number: the request
// fails with this errno, negated. Else only so many of its first bytes are moved, a multiple of
// kIoAlignment. Called from many threads at once.
using IoFault = std::function<std::optional<std::int64_t>(const IoRequest&)>;

struct StorageOptions {
  std::string directory{};  // of the files that are the NVMe slabs; empty: none
  IoMethod method = IoMethod::kAuto;
  IoFault fault{};  // for tests
  // Whether what is read is compared with what was written (block_sums.h).
  bool checks = true;
};

// What a run that uses NVMe does.
struct StorageReport {
  std::string directory;
  std::int64_t files = 0;
  Bytes bytes{0};  // of all files
  IoMethod method = IoMethod::kPosix;
  std::string method_reason;  // why this one
  bool direct = false;        // O_DIRECT: past the page cache
  bool pinned = false;        // the host slabs, which are the buffers, are locked in memory
  std::string pinned_reason;  // why not; empty when they are
};

std::string name(IoMethod method);  // "auto", "uring", "posix"
// One line: "2 files of 400.00 MiB in all in /mnt/nvme; io_uring, O_DIRECT, host buffers locked".
std::string describe(const StorageReport& report);

}  // namespace zplan::exec
