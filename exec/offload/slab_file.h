// The NVMe slab of one rank: a file of the slab's size, reserved when it is made. Its name is
// zplan-<process>-<number>-rank<rank>.slab; it is locked while its run lives and has no name after
// it, so a file of this pattern without a lock is what a killed run left behind.
#pragma once

#include <cstdint>
#include <string>

#include "exec/offload/storage.h"
#include "planner/core/units.h"

namespace zplan::exec {

class SlabFile {
 public:
  // Throws Error: kBadInput without a directory, kDevice when the file cannot be had.
  SlabFile(const StorageOptions& options, std::int32_t rank, Bytes size);
  ~SlabFile();
  SlabFile(const SlabFile&) = delete;
  SlabFile& operator=(const SlabFile&) = delete;

  int descriptor() const { return descriptor_; }
  bool is_direct() const { return direct_; }  // O_DIRECT; some file systems refuse it
  const std::string& path() const { return path_; }
  Bytes size() const { return size_; }

  // Throws Error(kDevice) when somebody removed or shortened the file.
  void check_intact() const;
  // The name goes, the content stays until the object does.
  void remove_name();

 private:
  void create(const std::string& directory, std::int32_t rank);
  bool take_name(const std::string& path);
  void reserve(const IoFault& fault);
  [[noreturn]] void fail(const std::string& what, int error) const;

  int descriptor_ = -1;
  bool direct_ = true;
  bool has_name_ = false;
  std::string path_;
  Bytes size_{0};
};

// Removes what killed runs left in a directory; how many files. Throws Error(kDevice) when it is no
// directory.
int remove_leftovers(const std::string& directory);

}  // namespace zplan::exec
