// The bytes of one rank in a checkpoint that is being written: a file of its final size, past the
// page cache where the file system allows it, for its owner alone.
#pragma once

#include <string>

#include "exec/offload/open_file.h"
#include "exec/offload/storage.h"

namespace zplan::exec {

class CheckpointFile : public OpenFile {
 public:
  // Replaces a file of that name. Throws Error(kDevice) naming it.
  CheckpointFile(const std::string& path, Bytes size, const IoFault& fault);
  ~CheckpointFile() = default;

  // All that was written is on the drive when this returns.
  void flush() const;

 private:
  [[noreturn]] void fail(const char* what, int error) const;
};

}  // namespace zplan::exec
