// Moves bytes between page-aligned memory and a file. A transfer is cut into blocks of 1 MiB of
// which up to 32 are in flight with io_uring, 4 with pread and pwrite; meanwhile the sums of others
// are computed (block_sums.h). What the system moves only in part is asked for again. The file
// is read and written in whole kIoAlignment units: a last, broken one goes through a block of the
// engine's own, so no byte of memory beyond the transfer is touched; in the file it is filled up
// with zeros.
// One engine serves one thread. Allocates nothing after it is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/offload/block_queue.h"
#include "exec/offload/open_file.h"
#include "exec/offload/storage.h"
#include "planner/core/units.h"
#include "planner/program/job/program.h"

namespace zplan::exec {

inline constexpr std::int64_t kIoBlock = std::int64_t{1} << 20;  // bytes
inline constexpr int kIoDepth = 32;                              // blocks in flight

class IoEngine {
 public:
  IoEngine(std::unique_ptr<BlockQueue> queue, std::string reason, IoFault fault);

  IoMethod method() const { return queue_->method(); }
  const std::string& reason() const { return reason_; }  // why this method

  // Both return when all bytes are moved. `offset` and the memory are multiples of kIoAlignment.
  // Throws Error(kDevice) naming the file and what was expected, also when a file that knows what
  // it should hold (block_sums.h) holds something else; no request is in flight then.
  void read(const OpenFile& file, Bytes offset, Bytes bytes, std::byte* to);
  void write(const OpenFile& file, Bytes offset, Bytes bytes, const std::byte* from);

 private:
  struct Transfer;
  // The last block of a transfer whose size is not a multiple of kIoAlignment.
  struct alignas(kIoAlignment.value) Bounce {
    std::array<std::byte, static_cast<std::size_t>(kIoAlignment.value)> bytes;
  };
  // A block in flight, and how often it moved nothing.
  struct Flight {
    Block block;
    int idle = 0;
  };
  // What one request moved.
  struct Moved {
    Bytes offset;  // in the file
    std::span<const std::byte> data;
  };

  void run(Transfer& transfer);
  void fill_queue(Transfer& transfer);
  void submit(Flight& flight);
  BlockResult wait();
  Moved finish(Transfer& transfer, const BlockResult& done);
  static void check(Transfer& transfer, const Moved& moved);

  std::unique_ptr<BlockQueue> queue_;
  std::string reason_;
  IoFault fault_;
  std::unique_ptr<Bounce> bounce_;
  std::vector<Flight> flights_;      // by slot
  std::vector<int> free_;            // slots
  std::vector<BlockResult> forced_;  // answers that a fault gave in the system's place
};

// Throws Error(kDevice) when the method asked for is not to be had.
std::unique_ptr<IoEngine> make_io_engine(const StorageOptions& options);

}  // namespace zplan::exec
