// The NVMe slab of one rank: a file of the slab's size, reserved when it is made. Its name is
// zplan-<process>-<number>-rank<rank>.slab; it is locked while its run lives and has no name after
// it, so a file of this pattern without a lock is what a killed run left behind. What is read from
// it is compared with what was written, if the options say so.
#pragma once

#include <cstdint>
#include <string>

#include "exec/offload/open_file.h"
#include "exec/offload/storage.h"
#include "planner/core/units.h"

namespace zplan::exec {

class SlabFile : public OpenFile {
 public:
  // Throws Error: kBadInput without a directory, kDevice when the file cannot be had.
  SlabFile(const StorageOptions& options, std::int32_t rank, Bytes size);
  ~SlabFile();

  // Throws Error(kDevice) when somebody removed or shortened the file.
  void check_intact() const;
  // The name goes, the content stays until the object does.
  void remove_name();

 private:
  void create(const std::string& directory, std::int32_t rank);
  bool take_name(const std::string& path);
  void reserve(const IoFault& fault);
  [[noreturn]] void fail(const std::string& what, int error) const;

  bool has_name_ = false;
};

// Removes what killed runs left in a directory; how many files. Throws Error(kDevice) when it is no
// directory.
int remove_leftovers(const std::string& directory);

}  // namespace zplan::exec
