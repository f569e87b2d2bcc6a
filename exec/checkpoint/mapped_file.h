// A file that is mapped for reading.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "planner/core/input_file.h"
#include "planner/core/units.h"

namespace zplan::exec {

class MappedFile {
 public:
  MappedFile() = default;
  // The first so many bytes. Throws Error(kBadInput) naming it: missing, cut short.
  MappedFile(const std::string& path, Bytes size, Links links = Links::kRefused);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  MappedFile& operator=(MappedFile&&) = delete;

  const std::byte* data() const { return data_; }  // null when there is nothing in it

 private:
  const std::byte* data_ = nullptr;
  Bytes size_{0};
};

}  // namespace zplan::exec
