#include "exec/offload/io_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr std::int64_t kUnit = kIoAlignment.value;
// [assumed] a request that so often moves less than one unit will never move it
constexpr int kMostIdle = 16;

const char* word(IoKind kind) { return kind == IoKind::kRead ? "read" : "write"; }

std::string reason_of(std::int64_t result, const OpenFile& file) {
  if (result < 0) return strerror(static_cast<int>(-result));
  return fmt::format("the file ends there, expected {} bytes", file.size().value);
}

}  // namespace

struct IoEngine::Transfer {
  const OpenFile& file;
  IoKind kind;
  std::int64_t offset;
  std::int64_t bytes;
  std::byte* data;
  std::int64_t next = 0;  // first byte that is in no block yet
  int in_flight = 0;
  std::string failure{};  // the first; nothing more is submitted after it

  bool has_more() const { return failure.empty() && next < bytes; }
  std::int64_t whole() const { return bytes / kUnit * kUnit; }
};

IoEngine::IoEngine(std::unique_ptr<BlockQueue> queue, std::string reason, IoFault fault)
    : queue_(std::move(queue)),
      reason_(std::move(reason)),
      fault_(std::move(fault)),
      bounce_(std::make_unique<Bounce>()),
      flights_(static_cast<std::size_t>(queue_->depth())) {
  for (int slot = 0; slot < queue_->depth(); ++slot) free_.push_back(slot);
  forced_.reserve(flights_.size());
}

void IoEngine::read(const OpenFile& file, Bytes offset, Bytes bytes, std::byte* to) {
  Transfer transfer{file, IoKind::kRead, offset.value, bytes.value, to};
  run(transfer);
  const std::int64_t whole = transfer.whole();
  std::copy_n(bounce_->bytes.data(), bytes.value - whole, to + whole);
}

void IoEngine::write(const OpenFile& file, Bytes offset, Bytes bytes, const std::byte* from) {
  // The system only reads from it.
  Transfer transfer{file, IoKind::kWrite, offset.value, bytes.value, const_cast<std::byte*>(from)};
  const std::int64_t whole = transfer.whole();
  bounce_->bytes.fill(std::byte{0});
  std::copy_n(transfer.data + whole, bytes.value - whole, bounce_->bytes.data());
  run(transfer);
}

// Sums are computed of a block that was just read once the next one is on its way.
void IoEngine::run(Transfer& transfer) {
  fill_queue(transfer);
  while (transfer.in_flight > 0) {
    const Moved moved = finish(transfer, wait());
    fill_queue(transfer);
    check(transfer, moved);
  }
  if (!transfer.failure.empty()) throw Error(ExitCode::kDevice, transfer.failure);
}

void IoEngine::fill_queue(Transfer& t) {
  while (t.has_more() && !free_.empty() && t.in_flight < queue_->depth()) {
    const int slot = free_.back();
    free_.pop_back();
    const bool is_tail = t.next == t.whole();
    const std::int64_t bytes = is_tail ? kUnit : std::min(kIoBlock, t.whole() - t.next);
    Flight& flight = flights_[static_cast<std::size_t>(slot)];
    flight = {{.slot = slot,
               .descriptor = t.file.descriptor(),
               .kind = t.kind,
               .offset = t.offset + t.next,
               .bytes = bytes,
               .data = is_tail ? bounce_->bytes.data() : t.data + t.next}};
    t.next += bytes;
    ++t.in_flight;
    submit(flight);
    BlockSums* const sums = t.file.sums();
    if (sums == nullptr || t.kind != IoKind::kWrite) continue;
    const Block& block = flight.block;  // the system only reads of it meanwhile
    sums->keep(Bytes{block.offset}, {block.data, static_cast<std::size_t>(bytes)});
  }
}

void IoEngine::submit(Flight& flight) {
  Block block = flight.block;
  if (fault_) {
    const auto forced = fault_({block.kind, block.offset, block.bytes});
    if (forced && *forced <= 0) {
      forced_.push_back({block.slot, *forced});
      return;
    }
    if (forced) block.bytes = std::min(block.bytes, *forced);
  }
  queue_->submit(block);
}

BlockResult IoEngine::wait() {
  if (forced_.empty()) return queue_->wait();
  const BlockResult result = forced_.back();
  forced_.pop_back();
  return result;
}

// Asks again for what is left of a block, from its last whole unit on.
IoEngine::Moved IoEngine::finish(Transfer& t, const BlockResult& done) {
  Flight& flight = flights_[static_cast<std::size_t>(done.slot)];
  Block& block = flight.block;
  const bool is_interrupted = done.result == -EINTR || done.result == -EAGAIN;
  const std::int64_t bytes = std::max<std::int64_t>(done.result, 0) / kUnit * kUnit;
  const Moved moved{Bytes{block.offset}, {block.data, static_cast<std::size_t>(bytes)}};
  flight.idle = bytes == 0 ? flight.idle + 1 : 0;
  block.offset += bytes;
  block.bytes -= bytes;
  block.data += bytes;
  const bool is_lost = (done.result < 0 && !is_interrupted) || flight.idle >= kMostIdle;
  if (block.bytes > 0 && t.failure.empty() && !is_lost) {
    submit(flight);
    return moved;
  }
  if (is_lost && t.failure.empty()) {
    t.failure = fmt::format("{}: cannot {} {} bytes at byte {}: {}", t.file.path(), word(t.kind),
                            block.bytes, block.offset, reason_of(done.result, t.file));
  }
  free_.push_back(done.slot);
  --t.in_flight;
  return moved;
}

void IoEngine::check(Transfer& t, const Moved& moved) {
  const BlockSums* const sums = t.file.sums();
  if (sums == nullptr || t.kind != IoKind::kRead || !t.failure.empty()) return;
  const auto changed = sums->first_changed(moved.offset, moved.data);
  if (changed)
    t.failure = fmt::format("{}: the {} bytes at byte {} are not those that were written there",
                            t.file.path(), kUnit, changed->value);
}

std::unique_ptr<IoEngine> make_io_engine(const StorageOptions& options) {
  std::string why_not;
  if (options.method == IoMethod::kPosix) {
    return std::make_unique<IoEngine>(make_posix_queue(), "asked for", options.fault);
  }
  const bool wanted = options.method == IoMethod::kUring;
  if (auto queue = make_uring_queue(kIoDepth, why_not)) {
    return std::make_unique<IoEngine>(std::move(queue),
                                      wanted ? "asked for" : "the system offers it", options.fault);
  }
  if (wanted) throw Error(ExitCode::kDevice, why_not);
  return std::make_unique<IoEngine>(make_posix_queue(), why_not, options.fault);
}

}  // namespace zplan::exec
