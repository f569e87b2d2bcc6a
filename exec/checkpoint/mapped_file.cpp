#include "exec/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.h"

namespace zplan::exec {

MappedFile::MappedFile(const std::string& path, Bytes size, Links links) : size_(size) {
  const int follow = links == Links::kFollowed ? 0 : O_NOFOLLOW;
  // A pipe without a writer would keep us waiting.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | follow | O_CLOEXEC);
  if (descriptor < 0)
    throw_bad_input(fmt::format("{}: cannot be opened: {}", path, strerror(errno)));
  struct stat info {};
  const bool is_known = fstat(descriptor, &info) == 0;
  const bool is_file = is_known && S_ISREG(info.st_mode);
  void* address = nullptr;
  int error = is_known ? 0 : errno;
  if (is_file && info.st_size >= size.value && size.value > 0) {
    address =
        mmap(nullptr, static_cast<std::size_t>(size.value), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) error = errno;
  }
  ::close(descriptor);
  if (error != 0) throw_bad_input(fmt::format("{}: cannot be read: {}", path, strerror(error)));
  if (!is_file) throw_bad_input(fmt::format("{}: expected a file", path));
  if (info.st_size < size.value)
    throw_bad_input(
        fmt::format("{}: cut short: {} bytes, expected {}", path, info.st_size, size.value));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr)
    munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_.value));
}

}  // namespace zplan::exec
