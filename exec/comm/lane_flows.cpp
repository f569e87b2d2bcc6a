#include "exec/comm/lane_flows.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"
#include "planner/program/job/collectives.h"

namespace zplan::exec {
namespace {

constexpr std::uint32_t kFlowMagic = 0x7a706f70;  // "zpop"
constexpr std::uint8_t kTransfer = 255;           // no CollectiveKind
constexpr int kSlice = 50;                        // milliseconds between looks for a stop
constexpr Seconds kGrace{2};  // for the rendezvous to tell who is lost: two heartbeats

}  // namespace

std::string describe(const LaneContext& context, const LaneWait& wait) {
  return fmt::format("rank {} was in {}, waiting for rank {} for {:.1f} s", context.rank,
                     context.name(wait.node, wait.earlier), wait.peer,
                     seconds_since(wait.since).value);
}

LaneFlows::LaneFlows(const LaneContext& context, std::size_t members)
    : context_(context), flows_(members), polls_(members) {}

void LaneFlows::begin(const LaneOp& op, std::span<Link* const> partners) {
  op_ = op;
  count_ = partners.size();
  met_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count_; ++i) {
    Flow& flow = flows_[i];
    flow = {};
    flow.link = partners[i];
    if (flow.link == nullptr) continue;
    flow.mine = {kFlowMagic,
                 op.is_transfer ? kTransfer : static_cast<std::uint8_t>(op.kind),
                 static_cast<std::uint8_t>(op.dtype),
                 0,
                 flow.link->operations++,
                 op.elements,
                 op.root};
    flow.header_out = std::as_bytes(std::span(&flow.mine, 1));
    flow.header_in = std::as_writable_bytes(std::span(&flow.theirs, 1));
  }
}

void LaneFlows::send(std::size_t flow, const std::byte* data, std::int64_t bytes) {
  flows_[flow].out = {data, static_cast<std::size_t>(bytes)};
}

void LaneFlows::receive(std::size_t flow, std::byte* data, std::int64_t bytes) {
  flows_[flow].in = {data, static_cast<std::size_t>(bytes)};
}

void LaneFlows::move() {
  TimePoint last_move = std::chrono::steady_clock::now();
  while (true) {
    bool is_done = true, has_moved = false;
    for (Flow& flow : std::span(flows_).first(count_)) {
      if (flow.link == nullptr || flow.is_done()) continue;
      has_moved = advance(flow) || has_moved;
      is_done = is_done && flow.is_done();
    }
    if (is_done) return;
    if (context_.signal->stopped()) throw Stopped{};
    if (has_moved) {
      last_move = std::chrono::steady_clock::now();
    } else {
      wait_for_any(last_move);
    }
  }
}

TimePoint LaneFlows::end() {
  const std::lock_guard lock(mutex_);
  wait_.reset();
  return met_;
}

std::optional<LaneWait> LaneFlows::wait() const {
  const std::lock_guard lock(mutex_);
  return wait_;
}

bool LaneFlows::advance(Flow& flow) {
  const bool has_sent = advance_sending(flow);
  return advance_receiving(flow) || has_sent;
}

bool LaneFlows::advance_sending(Flow& flow) {
  bool has_moved = false;
  for (auto* part : {&flow.header_out, &flow.out}) {
    if (part->empty()) continue;
    const Socket::Moved sent = flow.link->socket.send(part->data(), part->size());
    if (sent.closed) fail_lost(flow, sent.reason);
    *part = part->subspan(sent.bytes);
    has_moved = has_moved || sent.bytes > 0;
    if (!part->empty()) break;
  }
  return has_moved;
}

bool LaneFlows::advance_receiving(Flow& flow) {
  bool has_moved = false;
  for (auto* part : {&flow.header_in, &flow.in}) {
    if (part->empty()) continue;
    const Socket::Moved got = flow.link->socket.receive(part->data(), part->size());
    if (got.closed) fail_lost(flow, got.reason);
    *part = part->subspan(got.bytes);
    has_moved = has_moved || got.bytes > 0;
    if (!part->empty()) break;
    if (part == &flow.header_in) check(flow);
  }
  return has_moved;
}

std::string LaneFlows::describe(const Header& header) {
  if (header.kind == kTransfer) {
    return fmt::format("a transfer of {} bytes from rank {}", header.elements, header.root);
  }
  const auto kind = static_cast<CollectiveKind>(header.kind);
  return fmt::format("{} of {} {}{}", name(kind), header.elements,
                     name(static_cast<DType>(header.dtype)),
                     has_root(kind) ? fmt::format(" with root {}", header.root) : "");
}

void LaneFlows::check(const Flow& flow) {
  met_ = std::chrono::steady_clock::now();
  const Header &a = flow.mine, &b = flow.theirs;
  const bool is_header = b.magic == kFlowMagic && b.zero == 0 && b.dtype < kDTypeCount &&
                         (b.kind == kTransfer || b.kind < kCollectiveKindCount);
  if (!is_header || a.number != b.number)
    fail(fmt::format("what rank {} sends is out of step", flow.link->peer));
  if (a.kind == b.kind && a.dtype == b.dtype && a.elements == b.elements && a.root == b.root)
    return;
  fail(fmt::format("partners disagree: rank {} calls {}, rank {} calls {}", context_.rank,
                   describe(a), flow.link->peer, describe(b)));
}

void LaneFlows::fail(const std::string& what) const {
  throw Error(ExitCode::kCheckFailed,
              fmt::format("{} (in {})", what, context_.name(op_.node, op_.earlier)));
}

// The cause may be another process than the partner that does not come, or whose connection has
// ended first.
std::optional<Loss> LaneFlows::find_loss() const {
  const TimePoint deadline = after(kGrace);
  std::optional<Loss> loss;
  while (!loss && milliseconds_until(deadline, 1) > 0) {
    if (context_.signal->stopped()) throw Stopped{};
    loss = context_.rendezvous->wait_for_loss(Seconds{kSlice * 1e-3});
  }
  return loss;
}

void LaneFlows::fail_lost(const Flow& flow, const std::string& reason) {
  note_wait(flow.link->peer);
  const Loss loss = find_loss().value_or(
      Loss{flow.link->peer, reason.empty() ? "it closed its connection" : reason});
  throw Error(ExitCode::kDevice,
              fmt::format("{}; {}", exec::describe(loss), exec::describe(context_, *wait())));
}

void LaneFlows::note_wait(int peer) {
  const std::lock_guard lock(mutex_);
  if (wait_ && wait_->peer == peer) return;
  wait_ = {op_.node, op_.earlier, peer, std::chrono::steady_clock::now()};
}

void LaneFlows::wait_for_any(TimePoint last_move) {
  const Flow* first = nullptr;
  for (std::size_t i = 0; i < count_; ++i) {
    const Flow& flow = flows_[i];
    polls_[i] = {-1, 0, 0};
    if (flow.link == nullptr || flow.is_done()) continue;
    if (first == nullptr) first = &flow;
    const bool sends = !flow.header_out.empty() || !flow.out.empty();
    const bool receives = !flow.header_in.empty() || !flow.in.empty();
    polls_[i].fd = flow.link->socket.descriptor();
    polls_[i].events = static_cast<short>((sends ? POLLOUT : 0) | (receives ? POLLIN : 0));
  }
  note_wait(first->link->peer);
  if (::poll(polls_.data(), count_, kSlice) > 0) return;
  if (context_.rendezvous->loss()) fail_lost(*first, "");
  if (seconds_since(last_move) < context_.deadline) return;
  const std::optional<Loss> loss = find_loss();
  throw Error(ExitCode::kDevice,
              fmt::format("{}; {}",
                          loss ? exec::describe(*loss)
                               : fmt::format("rank {} does not come", first->link->peer),
                          exec::describe(context_, *wait())));
}

}  // namespace zplan::exec
