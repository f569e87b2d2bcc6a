// A file that blocks are moved from and to (io_engine.h): the slab of a rank on NVMe, or what a
// checkpoint is written to. Who derives from it opens the file; it is closed here.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "exec/offload/block_sums.h"
#include "planner/core/units.h"

namespace zplan::exec {

inline constexpr mode_t kOwnerOnly = 0600;  // of all files that hold what a run trains

class OpenFile {
 public:
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  bool is_direct() const { return direct_; }  // O_DIRECT; some file systems refuse it
  const std::string& path() const { return path_; }
  Bytes size() const { return size_; }
  // Of a file that is read again by those who wrote it; null: nobody checks what it holds.
  BlockSums* sums() const { return sums_.get(); }

 protected:
  explicit OpenFile(Bytes size) : size_(size) {}
  ~OpenFile() { close(); }

  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

  int descriptor_ = -1;
  bool direct_ = true;
  std::string path_;
  Bytes size_{0};
  std::unique_ptr<BlockSums> sums_;
};

}  // namespace zplan::exec
