// Requests to the system in flight: what io_uring and pread/pwrite have in common. Internal to
// exec/offload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/offload/storage.h"

namespace zplan::exec {

// One contiguous request; `slot` names it until it is complete.
struct Block {
  int slot = 0;
  int descriptor = -1;
  IoKind kind = IoKind::kRead;
  std::int64_t offset = 0;  // in the file
  std::int64_t bytes = 0;
  std::byte* data = nullptr;
};

struct BlockResult {
  int slot = 0;
  std::int64_t result = 0;  // bytes moved, or a negative errno
};

class BlockQueue {
 public:
  virtual ~BlockQueue() = default;
  virtual IoMethod method() const = 0;
  // Requests that may be in flight at once.
  virtual int depth() const = 0;
  virtual void submit(const Block& block) = 0;
  // Waits for one of the submitted.
  virtual BlockResult wait() = 0;
};

// io_uring with a queue of this depth; null where it is not to be had, with the reason.
std::unique_ptr<BlockQueue> make_uring_queue(int depth, std::string& why_not);
std::unique_ptr<BlockQueue> make_posix_queue();

}  // namespace zplan::exec
