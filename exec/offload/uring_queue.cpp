#include "exec/offload/block_queue.h"

#ifdef ZPLAN_HAVE_URING
#include <liburing.h>

#include <cstring>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

class UringQueue : public BlockQueue {
 public:
  explicit UringQueue(int depth) : depth_(depth) {}
  ~UringQueue() override {
    if (is_open_) io_uring_queue_exit(&ring_);
  }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  // 0, or a negative errno.
  int open() {
    const int result = io_uring_queue_init(static_cast<unsigned>(depth_), &ring_, 0);
    is_open_ = result == 0;
    return result;
  }

  IoMethod method() const override { return IoMethod::kUring; }
  int depth() const override { return depth_; }

  void submit(const Block& block) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    ZPLAN_ASSERT(entry != nullptr);  // no more than `depth` are in flight
    const auto bytes = static_cast<unsigned>(block.bytes);
    const auto offset = static_cast<__u64>(block.offset);
    if (block.kind == IoKind::kRead) {
      io_uring_prep_read(entry, block.descriptor, block.data, bytes, offset);
    } else {
      io_uring_prep_write(entry, block.descriptor, block.data, bytes, offset);
    }
    io_uring_sqe_set_data64(entry, static_cast<__u64>(block.slot));
    expect_submitted(io_uring_submit(&ring_));
  }

  BlockResult wait() override {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) != 0)
      expect_submitted(io_uring_submit_and_wait(&ring_, 1));
    const BlockResult done{static_cast<int>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return done;
  }

 private:
  // What the system was too busy to take is handed over by the next call.
  static void expect_submitted(int result) {
    if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY)
      throw Error(ExitCode::kDevice, std::string("io_uring: ") + strerror(-result));
  }

  int depth_;
  bool is_open_ = false;
  io_uring ring_{};
};

}  // namespace

std::unique_ptr<BlockQueue> make_uring_queue(int depth, std::string& why_not) {
  auto queue = std::make_unique<UringQueue>(depth);
  const int result = queue->open();
  if (result == 0) return queue;
  why_not = std::string("the system refuses io_uring: ") + strerror(-result);
  return nullptr;
}

}  // namespace zplan::exec
#else

namespace zplan::exec {

std::unique_ptr<BlockQueue> make_uring_queue(int /*depth*/, std::string& why_not) {
  why_not = "built without liburing";
  return nullptr;
}

}  // namespace zplan::exec
#endif
