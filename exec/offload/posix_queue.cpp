#include <unistd.h>

#include <cerrno>

#include "exec/offload/block_queue.h"

namespace zplan::exec {
namespace {

// One request at a time, done while it is submitted.
class PosixQueue : public BlockQueue {
 public:
  IoMethod method() const override { return IoMethod::kPosix; }
  int depth() const override { return 1; }
  void submit(const Block& block) override {
    const auto bytes = static_cast<std::size_t>(block.bytes);
    const ssize_t moved = block.kind == IoKind::kRead
                              ? ::pread(block.descriptor, block.data, bytes, block.offset)
                              : ::pwrite(block.descriptor, block.data, bytes, block.offset);
    done_ = {block.slot, moved < 0 ? -errno : moved};
  }
  BlockResult wait() override { return done_; }

 private:
  BlockResult done_;
};

}  // namespace

std::unique_ptr<BlockQueue> make_posix_queue() { return std::make_unique<PosixQueue>(); }

}  // namespace zplan::exec
