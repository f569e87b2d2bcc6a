#include "exec/checkpoint/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.h"

namespace zplan::exec {

MappedFile::MappedFile(const std::string& path, Bytes size, Links links) : size_(size) {
  const InputFile file(path, Pipes::kRefused, links);
  if (file.bytes() < size.value)
    throw_bad_input(
        fmt::format("{}: cut short: {} bytes, expected {}", path, file.bytes(), size.value));
  if (size.value == 0) return;
  void* const address = mmap(nullptr, static_cast<std::size_t>(size.value), PROT_READ, MAP_PRIVATE,
                             file.descriptor(), 0);
  if (address == MAP_FAILED)
    throw_bad_input(fmt::format("{}: cannot be read: {}", path, strerror(errno)));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr)
    munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_.value));
}

}  // namespace zplan::exec
