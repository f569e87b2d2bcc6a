#include "exec/offload/slab_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>
#include <system_error>

#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/program/job/program.h"

namespace zplan::exec {
namespace {

// Free for users without privileges, as text; empty when the system does not say.
std::string free_space(const std::string& directory) {
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0) return "";
  const auto bytes = static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
  return fmt::format(" ({} are free)", format_bytes(Bytes{bytes}));
}

bool is_ours(const std::string& file_name) {
  static const std::regex kPattern(R"(zplan-\d+-\d+-rank\d+\.slab)");
  return std::regex_match(file_name, kPattern);
}

// Whether the file had no owner any more and is gone now.
bool remove_if_abandoned(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is_abandoned = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  const bool is_removed = is_abandoned && ::unlink(path.c_str()) == 0;
  ::close(descriptor);
  return is_removed;
}

}  // namespace

SlabFile::SlabFile(const StorageOptions& options, std::int32_t rank, Bytes size)
    : OpenFile(round_up(size, kIoAlignment)) {
  if (options.directory.empty()) {
    throw_bad_input(
        fmt::format("the job keeps {} of rank {} on NVMe: expected a directory for its files",
                    format_bytes(size), rank));
  }
  if (options.checks) sums_ = std::make_unique<BlockSums>(size_);
  create(options.directory, rank);
  try {
    reserve(options.fault);
  } catch (...) {
    remove_name();
    throw;
  }
}

SlabFile::~SlabFile() { remove_name(); }

void SlabFile::fail(const std::string& what, int error) const {
  throw Error(ExitCode::kDevice, fmt::format("{}: {}: {}", path_, what, strerror(error)));
}

// A name that nobody has. Whoever looks for leftovers between the two calls of take_name may take
// the file away: then the next number is tried.
void SlabFile::create(const std::string& directory, std::int32_t rank) {
  for (int number = 0; !has_name_; ++number) {
    path_ = (std::filesystem::path(directory) /
             fmt::format("zplan-{}-{}-rank{}.slab", ::getpid(), number, rank))
                .string();
    has_name_ = take_name(path_);
  }
}

bool SlabFile::take_name(const std::string& path) {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  descriptor_ = ::open(path.c_str(), flags | O_DIRECT, kOwnerOnly);
  if (descriptor_ < 0 && errno == EINVAL) {  // no O_DIRECT there; the file may exist by now
    ::unlink(path.c_str());
    direct_ = false;
    descriptor_ = ::open(path.c_str(), flags, kOwnerOnly);
  }
  if (descriptor_ < 0 && errno == EEXIST) return false;
  if (descriptor_ < 0) fail("cannot be created", errno);
  struct stat info {};
  const bool is_locked = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  if (is_locked && fstat(descriptor_, &info) == 0 && info.st_nlink > 0) return true;
  close();
  return false;
}

void SlabFile::reserve(const IoFault& fault) {
  const auto forced = fault ? fault({IoKind::kReserve, 0, size_.value}) : std::nullopt;
  int error = 0;
  if (forced && *forced < 0) {
    error = static_cast<int>(-*forced);
  } else if (fallocate(descriptor_, 0, 0, size_.value) != 0) {
    error = errno;
  }
  // A file system that cannot reserve: the blocks come with the first writes.
  if (error == EOPNOTSUPP) error = ftruncate(descriptor_, size_.value) == 0 ? 0 : errno;
  if (error == 0) return;
  fail(fmt::format("cannot reserve {}{}", format_bytes(size_),
                   free_space(std::filesystem::path(path_).parent_path().string())),
       error);
}

void SlabFile::check_intact() const {
  struct stat info {};
  if (fstat(descriptor_, &info) != 0) fail("cannot be examined", errno);
  if (info.st_nlink == 0) {
    throw Error(ExitCode::kDevice,
                fmt::format("{}: was removed during the run, expected to keep it", path_));
  }
  if (info.st_size != size_.value) {
    throw Error(ExitCode::kDevice,
                fmt::format("{}: has {} bytes, expected {}; something changed it during the run",
                            path_, info.st_size, size_.value));
  }
}

void SlabFile::remove_name() {
  if (!has_name_) return;
  has_name_ = false;
  ::unlink(path_.c_str());
}

int remove_leftovers(const std::string& directory) {
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error) {
    throw Error(ExitCode::kDevice, fmt::format("{}: {}, expected a directory for the files of the "
                                               "NVMe tier",
                                               directory, error.message()));
  }
  int removed = 0;
  for (const auto& entry : entries) {
    if (is_ours(entry.path().filename().string()) && remove_if_abandoned(entry.path().string()))
      ++removed;
  }
  return removed;
}

}  // namespace zplan::exec
