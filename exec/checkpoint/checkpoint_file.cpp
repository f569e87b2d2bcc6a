#include "exec/checkpoint/checkpoint_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.h"
#include "planner/program/job/program.h"

namespace zplan::exec {

CheckpointFile::CheckpointFile(const std::string& path, Bytes size, const IoFault& fault)
    : OpenFile(round_up(size, kIoAlignment)) {
  path_ = path;
  ::unlink(path.c_str());
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  descriptor_ = ::open(path.c_str(), flags | O_DIRECT, kOwnerOnly);
  if (descriptor_ < 0 && errno == EINVAL) {  // no O_DIRECT there; the file may exist by now
    ::unlink(path.c_str());
    direct_ = false;
    descriptor_ = ::open(path.c_str(), flags, kOwnerOnly);
  }
  if (descriptor_ < 0) fail("cannot be created", errno);
  if (size_.value == 0) return;
  const auto forced = fault ? fault({IoKind::kReserve, 0, size_.value}) : std::nullopt;
  int error = forced && *forced < 0 ? static_cast<int>(-*forced) : 0;
  if (error == 0 && fallocate(descriptor_, 0, 0, size_.value) != 0) error = errno;
  // A file system that cannot reserve: the blocks come with the writes.
  if (error == EOPNOTSUPP) error = ftruncate(descriptor_, size_.value) == 0 ? 0 : errno;
  if (error != 0) fail("cannot be given its size", error);
}

void CheckpointFile::flush() const {
  if (::fsync(descriptor_) != 0) fail("cannot be flushed", errno);
}

void CheckpointFile::fail(const char* what, int error) const {
  throw Error(ExitCode::kDevice,
              fmt::format("{}: {} ({} bytes): {}", path_, what, size_.value, strerror(error)));
}

}  // namespace zplan::exec
