// Tries the ways that a run goes, with the executor's own code: a ring, and a file of the NVMe tier
// that is written and read back.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "exec/memory/slab.h"
#include "exec/offload/io_engine.h"
#include "exec/offload/slab_file.h"
#include "planner/cli/doctor/doctor.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

constexpr const char* kNvmeTier = "run with states on NVMe";

HostFinding ring_finding() {
  HostFinding f{"io_uring", Presence::kYes, "a ring could be set up",
                "run with states on NVMe: many requests at a time", ""};
  const auto engine = exec::make_io_engine({});
  if (engine->method() == exec::IoMethod::kUring) return f;
  f.presence = Presence::kNo;
  f.found = engine->reason();
  f.advice =
      "pread and pwrite are used instead, one request at a time: slower. Build with "
      "liburing; containers block io_uring unless their seccomp profile allows it";
  return f;
}

// The file system that a folder is on, by the mount whose folder is the longest part of its path:
// "36 35 98:0 /root /folder rw .. - ext4 /dev/vda rw".
std::string file_system(const std::filesystem::path& directory) {
  std::error_code failed;
  const auto path = std::filesystem::canonical(directory, failed).string();
  std::ifstream in("/proc/self/mountinfo");
  std::string found = "unknown file system";
  std::size_t longest = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string skip, folder, kind;
    words >> skip >> skip >> skip >> skip >> folder;
    while (words >> skip && skip != "-") continue;
    const bool is_above = folder == "/" || path == folder || path.starts_with(folder + "/");
    if (!(words >> kind) || !is_above || folder.size() < longest) continue;
    longest = folder.size();
    found = kind;
  }
  return found;
}

// A file of the NVMe tier that is written and read back; whether past the page cache. Throws Error.
bool try_file(const exec::StorageOptions& options) {
  constexpr Bytes kSize{std::int64_t{1} << 20};
  constexpr auto kWritten = std::byte{0x5a};
  exec::SlabFile file(options, 0, kSize);
  const auto engine = exec::make_io_engine(options);
  const exec::Slab memory(kSize);
  const auto bytes = std::span(memory.data(), static_cast<std::size_t>(kSize.value));
  std::fill(bytes.begin(), bytes.end(), kWritten);
  engine->write(file, Bytes{0}, kSize, memory.data());
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  engine->read(file, Bytes{0}, kSize, memory.data());
  if (std::count(bytes.begin(), bytes.end(), kWritten) != kSize.value)
    throw Error(ExitCode::kDevice, "what is read back is not what was written");
  return file.is_direct();
}

HostFinding folder_finding(const std::string& directory) {
  HostFinding f{"NVMe folder", Presence::kNo, "none given", kNvmeTier,
                "name one on a fast drive with --nvme-dir"};
  if (directory.empty()) return f;
  try {
    const bool is_direct = try_file({.directory = directory});
    struct statvfs info {};
    const bool known = statvfs(directory.c_str(), &info) == 0;
    const auto free = Bytes{static_cast<std::int64_t>(info.f_bavail * info.f_frsize)};
    const std::string kind = file_system(directory);
    f.found =
        fmt::format("{}: {}{}, O_DIRECT {}", directory, known ? format_bytes(free) + " free, " : "",
                    kind, is_direct ? "works" : "is refused");
    f.presence = Presence::kPartly;
    if (kind == "tmpfs") {
      f.advice = "this is memory, not a drive: choose another folder";
    } else if (!is_direct) {
      f.advice =
          "the page cache is used, which takes memory and time: choose a folder on ext4 or "
          "xfs";
    } else {
      f.presence = Presence::kYes;
      f.advice.clear();
    }
  } catch (const Error& error) {
    f.found = error.what();
    f.advice = "choose a folder that exists, is writable and has space";
  }
  return f;
}

}  // namespace

HostFindings examine_storage(const std::string& nvme_directory) {
  return {ring_finding(), folder_finding(nvme_directory)};
}

}  // namespace zplan
