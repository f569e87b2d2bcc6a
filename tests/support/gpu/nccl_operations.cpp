// NCCL of the stand-in GPU: operations. A collective needs the device: so many of them run at a
// time, from when a member's turn in its stream has come until all members are through. Told to by
// NCCL_LAUNCH_ORDER_IMPLICIT=1, operations of a device start in the order of their launches, those
// of a graph in the order of its capture, as NCCL 2.26 and later have it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/support/gpu/nccl.h"

namespace zplan::stand_in {
namespace {

bool launches_are_ordered() {
  const char* order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return order != nullptr && std::strcmp(order, "1") == 0;
}

std::size_t bytes_of(const Collective& c) { return c.count * size_of_type(c.type); }

// Where the input may lie within the output, or the other way round.
bool overlaps_badly(const Collective& c, int rank, std::size_t members) {
  const std::size_t own = bytes_of(c), all = own * members,
                    at = own * static_cast<std::size_t>(rank);
  const auto* input = static_cast<const std::byte*>(c.input);
  const auto* output = static_cast<const std::byte*>(c.output);
  switch (c.kind) {
    case Kind::kAllGather:
      return read_of(input, own).overlaps(read_of(output, all)) && input != output + at;
    case Kind::kReduceScatter:
      return read_of(input, all).overlaps(read_of(output, own)) && output != input + at;
    default:
      return read_of(input, own).overlaps(read_of(output, own)) && input != output;
  }
}

std::vector<Access> accesses_of(const Collective& c, int rank, std::size_t members) {
  const std::size_t own = bytes_of(c), all = own * members;
  switch (c.kind) {
    case Kind::kAllGather:
      return {read_of(c.input, own), write_of(c.output, all)};
    case Kind::kReduceScatter:
      return {read_of(c.input, all), write_of(c.output, own)};
    case Kind::kAllReduce:
      return {read_of(c.input, own), write_of(c.output, own)};
    case Kind::kBroadcast:
      if (rank != c.root) return {write_of(c.output, own)};
      return {read_of(c.input, own), write_of(c.output, own)};
    case Kind::kReduce:
      if (rank != c.root) return {read_of(c.input, own)};
      return {read_of(c.input, own), write_of(c.output, own)};
  }
  return {};
}

// Whether `comm`, which waits to enter its device, waits in the end for itself: for those inside,
// whose partners of this process wait to enter theirs.
bool is_in_circle(const Nccl& nccl, const ncclComm& comm, const ncclComm& target,
                  std::set<const ncclComm*>& seen) {
  for (const ncclComm& inside : nccl.comms) {
    if (!inside.is_inside || inside.device != comm.device) continue;
    for (const auto& [rank, partner] : inside.group->members) {
      if (!partner->is_entering || !waits_for(inside, rank)) continue;
      if (partner == &target) return true;
      if (seen.insert(partner).second && is_in_circle(nccl, *partner, target, seen)) return true;
    }
  }
  return false;
}

class Residence {
 public:
  Residence(Machine& m, Lock& lock, Device& device, ncclComm& comm, std::int64_t ticket,
            bool needs_device, const std::string& what)
      : m_(m), device_(device), comm_(comm), needs_device_(needs_device) {
    Nccl& nccl = nccl_of(m);
    comm.is_entering = true;
    std::set<const ncclComm*> seen;
    if (needs_device && is_full() && is_in_circle(nccl, comm, comm, seen))
      break_down(m, fmt::format("communicators out of order: on device {} {} of {} waits for a "
                                "collective whose partners wait for it elsewhere",
                                device.index, what, comm.group->name()));
    const auto may_enter = [&] {
      return comm.is_aborted ||
             ((ticket < 0 || device.next_ticket == ticket) && !(needs_device && is_full()));
    };
    m.wait(lock, nccl.changed, may_enter,
           fmt::format("device {}: {} of {} waits for its turn", device.index, what,
                       comm.group->name()));
    if (ticket >= 0) ++device.next_ticket;
    comm.is_entering = false;
    comm.is_inside = needs_device;
    if (needs_device) ++device.collectives;
    nccl.changed.notify_all();
  }
  ~Residence() {
    if (needs_device_) --device_.collectives;
    comm_.is_inside = false;
    nccl_of(m_).changed.notify_all();
  }
  Residence(const Residence&) = delete;
  Residence& operator=(const Residence&) = delete;

 private:
  bool is_full() const { return device_.collectives >= m_.options.resident_collectives; }

  Machine& m_;
  Device& device_;
  ncclComm& comm_;
  bool needs_device_;
};

std::vector<std::byte> copy_of(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + bytes};
}

// What a member brings.
std::vector<std::byte> input_of(const Collective& c, const ncclComm& comm) {
  if (c.kind == Kind::kBroadcast && comm.rank != c.root) return {};
  return copy_of(c.input, bytes_of(c) * (c.kind == Kind::kReduceScatter ? comm.group->size : 1));
}

void run_collective(Machine& m, Device& device, Agent& agent, ncclComm& comm,
                    const Collective& call, std::int64_t ticket) {
  Lock lock(m.mutex);
  const Residence residence(m, lock, device, comm, ticket, true, name_of(call.kind));
  const auto count = static_cast<std::int64_t>(call.count);
  std::vector<Post> own;
  own.push_back({.meeting = {MeetingKey::Kind::kCollective, comm.collectives++},
                 .seat = comm.rank,
                 .says = {static_cast<int>(call.kind), count, call.type, call.root},
                 .data = input_of(call, comm)});
  const auto all = meet(m, lock, agent, comm, std::move(own), name_of(call.kind));
  if (all.empty()) return;
  lock.unlock();
  compute(call, all.front(), comm.rank);
  lock.lock();
}

Post post_of(const Part& part, ncclComm& comm) {
  const std::pair way =
      part.sends ? std::pair(comm.rank, part.peer) : std::pair(part.peer, comm.rank);
  const std::size_t bytes = part.count * size_of_type(part.type);
  auto& turns = part.sends ? comm.sent : comm.received;
  return {.meeting = {MeetingKey::Kind::kTransfer, turns[part.peer]++, way.first, way.second},
          .seat = part.sends ? 0 : 1,
          .says = {static_cast<std::int64_t>(part.count), part.type, 0, 0},
          .data = part.sends ? copy_of(part.data, bytes) : std::vector<std::byte>{}};
}

void run_transfers(Machine& m, Device& device, Agent& agent, ncclComm& comm,
                   const std::vector<Part>& parts, std::int64_t ticket) {
  Lock lock(m.mutex);
  const std::string what = parts.size() > 1 ? "a group of transfers"
                           : parts[0].sends ? "ncclSend"
                                            : "ncclRecv";
  const Residence residence(m, lock, device, comm, ticket, parts.size() > 1, what);
  std::vector<Post> own;
  for (const Part& part : parts) own.push_back(post_of(part, comm));
  const std::vector<Posts> all = meet(m, lock, agent, comm, std::move(own), what);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<std::byte>& sent = all[i].at(0)->data;
    if (!parts[i].sends) std::memcpy(parts[i].data, sent.data(), sent.size());
  }
}

using Body = std::function<void(Machine&, Device&, Agent&, std::int64_t ticket)>;

// Launches in order take a number each; in a graph each comes after the one before.
ncclResult_t queue(Machine& m, ncclComm* comm, cudaStream_t handle, Work work, const Body& body) {
  Stream* stream = m.stream_of(handle, work.what);
  if (stream == nullptr) return ncclInvalidArgument;
  if (stream->device != comm->device) {
    m.find(fmt::format("{}: a stream of another device than the communicator's", work.what));
    return ncclInvalidUsage;
  }
  if (comm->stream != nullptr && comm->stream != stream)
    m.find(fmt::format("{}: {} is used on two streams", work.what, comm->group->name()));
  comm->stream = stream;
  work.communicator = comm;
  const bool ordered = launches_are_ordered();
  const std::int64_t ticket = ordered && !stream->capture ? comm->device->tickets++ : -1;
  Graph* graph = stream->capture ? stream->capture->graph : nullptr;
  const int counted = graph == nullptr ? 1 : 0;  // of a graph the communicator knows otherwise
  work.body = [=](Machine& at, Device& device, Agent& agent) {
    body(at, device, agent, ticket);
    const Lock lock(at.mutex);
    comm->unfinished -= counted;
  };
  if (graph != nullptr && ordered && graph->last_communication)
    stream->capture->last.insert(*graph->last_communication);
  if (m.submit(*stream, std::move(work)) != cudaSuccess) return ncclUnhandledCudaError;
  comm->unfinished += counted;
  if (graph != nullptr) graph->last_communication = graph->nodes.size() - 1;
  return ncclSuccess;
}

}  // namespace

ncclResult_t queue_collective(ncclComm* comm, const Collective& call, cudaStream_t stream) {
  return nccl_call(name_of(call.kind), [&](Machine& m, Lock&, Nccl&) {
    const char* const name = name_of(call.kind);
    if (!is_usable(m, comm, name)) return ncclInvalidArgument;
    if (call.root < 0 || call.root >= static_cast<int>(comm->group->size)) {
      m.find(fmt::format("{}: root {} of {} ranks", name, call.root, comm->group->size));
      return ncclInvalidArgument;
    }
    if (overlaps_badly(call, comm->rank, comm->group->size)) {
      m.find(fmt::format("{}: the output overlaps the input", name));
      return ncclInvalidArgument;
    }
    return queue(m, comm, stream, {name, accesses_of(call, comm->rank, comm->group->size)},
                 [=](Machine& at, Device& device, Agent& agent, std::int64_t ticket) {
                   run_collective(at, device, agent, *comm, call, ticket);
                 });
  });
}

ncclResult_t queue_transfers(ncclComm* comm, const std::vector<Part>& parts, cudaStream_t stream) {
  return nccl_call(parts[0].sends ? "ncclSend" : "ncclRecv", [&](Machine& m, Lock&, Nccl&) {
    const char* const name = parts[0].sends ? "ncclSend" : "ncclRecv";
    if (!is_usable(m, comm, name)) return ncclInvalidArgument;
    std::vector<Access> accesses;
    for (const Part& part : parts) {
      if (part.peer < 0 || part.peer >= static_cast<int>(comm->group->size)) {
        m.find(fmt::format("{}: peer {} of {} ranks", name, part.peer, comm->group->size));
        return ncclInvalidArgument;
      }
      const std::size_t bytes = part.count * size_of_type(part.type);
      accesses.push_back(part.sends ? read_of(part.data, bytes) : write_of(part.data, bytes));
    }
    return queue(m, comm, stream, {name, std::move(accesses)},
                 [=](Machine& at, Device& device, Agent& agent, std::int64_t ticket) {
                   run_transfers(at, device, agent, *comm, parts, ticket);
                 });
  });
}

}  // namespace zplan::stand_in
