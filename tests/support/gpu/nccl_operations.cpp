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

std::string text_of(const Collective& c) {
  return fmt::format("{} of {} elements of type {}, root {}", name_of(c.kind), c.count,
                     static_cast<int>(c.type), c.root);
}

bool are_alike(const Collective& x, const Collective& y) {
  return x.kind == y.kind && x.count == y.count && x.type == y.type && x.root == y.root;
}

bool has_come(const ncclComm& comm, const ncclComm& other) {
  return other.meetings > comm.meetings - 1 &&
         comm.group->meetings[comm.meetings - 1].calls.contains(other.rank);
}

// Whether `comm`, which waits to enter its device, waits in the end for itself: for those inside,
// whose partners wait to enter theirs.
bool waits_for(const Nccl& nccl, const ncclComm& comm, const ncclComm& target,
               std::set<const ncclComm*>& seen) {
  for (const ncclComm& inside : nccl.comms) {
    if (!inside.is_inside || inside.device != comm.device) continue;
    for (const ncclComm* partner : inside.group->members) {
      if (partner == &inside || !partner->is_entering || has_come(inside, *partner)) continue;
      if (partner == &target) return true;
      if (seen.insert(partner).second && waits_for(nccl, *partner, target, seen)) return true;
    }
  }
  return false;
}

void break_down(Machine& m, const std::string& finding) {
  m.find(finding);
  m.is_broken = true;
  for (Device& device : m.devices) m.fail(device, cudaErrorLaunchFailure);
  nccl_of(m).changed.notify_all();
}

class Residence {
 public:
  Residence(Machine& m, Lock& lock, Device& device, ncclComm& comm, std::int64_t ticket,
            bool needs_device, const std::string& what)
      : m_(m), device_(device), comm_(comm), needs_device_(needs_device) {
    Nccl& nccl = nccl_of(m);
    comm.is_entering = true;
    std::set<const ncclComm*> seen;
    if (needs_device && is_full() && waits_for(nccl, comm, comm, seen))
      break_down(m, fmt::format("communicators out of order: on device {} {} of {} waits for a "
                                "collective whose partners wait for it elsewhere",
                                device.index, what, comm.group->name));
    const auto may_enter = [&] {
      return comm.is_aborted ||
             ((ticket < 0 || device.next_ticket == ticket) && !(needs_device && is_full()));
    };
    m.wait(lock, nccl.changed, may_enter,
           fmt::format("device {}: {} of {} waits for its turn", device.index, what,
                       comm.group->name));
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

void run_collective(Machine& m, Device& device, Agent& agent, ncclComm& comm,
                    const Collective& call, std::int64_t ticket) {
  Lock lock(m.mutex);
  Nccl& nccl = nccl_of(m);
  const Residence residence(m, lock, device, comm, ticket, true, name_of(call.kind));
  CommGroup& group = *comm.group;
  const std::int64_t number = comm.meetings++;
  CommGroup::Meeting& meeting = group.meetings[number];
  for (const auto& [rank, other] : meeting.calls)
    if (!are_alike(call, other)) {
      for (ncclComm* member : group.members) member->error = ncclInvalidUsage;
      return break_down(
          m, fmt::format("{}: operation {} is {} on rank {}, {} on rank {}", group.name, number,
                         text_of(call), comm.rank, text_of(other), rank));
    }
  meeting.calls[comm.rank] = call;
  join(meeting.clock, agent.clock);
  if (meeting.calls.size() == group.size) {
    compute(meeting.calls);
    meeting.is_done = true;
    m.count_collective(call.count * size_of_type(call.type));
  }
  nccl.changed.notify_all();
  m.wait(
      lock, nccl.changed, [&] { return meeting.is_done || comm.is_aborted; },
      fmt::format("device {}: {} of {} waits for its partners", device.index, name_of(call.kind),
                  group.name));
  join(agent.clock, meeting.clock);
  if (++meeting.left == static_cast<int>(group.size)) group.meetings.erase(number);
}

// The oldest of both sides meet.
void match(Machine& m, CommGroup& group, std::pair<int, int> way) {
  CommGroup::Pair& pair = group.pairs[way];
  while (!pair.sends.empty() && !pair.receives.empty()) {
    Part &from = *pair.sends.front(), &to = *pair.receives.front();
    if (from.count != to.count || from.type != to.type)
      return break_down(
          m, fmt::format("{}: rank {} sends {} elements of type {}, rank {} expects {} of type {}",
                         group.name, way.first, from.count, static_cast<int>(from.type), way.second,
                         to.count, static_cast<int>(to.type)));
    std::memcpy(to.data, from.data, from.count * size_of_type(from.type));
    join(from.clock, to.clock);
    join(to.clock, from.clock);
    from.is_done = to.is_done = true;
    pair.sends.pop_front();
    pair.receives.pop_front();
    m.count_collective(from.count * size_of_type(from.type));
  }
}

void run_transfers(Machine& m, Device& device, Agent& agent, ncclComm& comm,
                   const std::vector<PartPtr>& calls, std::int64_t ticket) {
  Lock lock(m.mutex);
  Nccl& nccl = nccl_of(m);
  const std::string what = calls.size() > 1  ? "a group of transfers"
                           : calls[0]->sends ? "ncclSend"
                                             : "ncclRecv";
  const Residence residence(m, lock, device, comm, ticket, calls.size() > 1, what);
  std::vector<PartPtr> parts;
  for (const PartPtr& call : calls) {
    const PartPtr& part = parts.emplace_back(std::make_shared<Part>(*call));
    part->clock = agent.clock;
    const std::pair way =
        part->sends ? std::pair(comm.rank, part->peer) : std::pair(part->peer, comm.rank);
    CommGroup::Pair& pair = comm.group->pairs[way];
    (part->sends ? pair.sends : pair.receives).push_back(part);
    match(m, *comm.group, way);
  }
  nccl.changed.notify_all();
  const auto are_done = [&] {
    return std::all_of(parts.begin(), parts.end(), [](const PartPtr& p) { return p->is_done; });
  };
  m.wait(
      lock, nccl.changed, [&] { return are_done() || comm.is_aborted; },
      fmt::format("device {}: {} of {} waits for its partner", device.index, what,
                  comm.group->name));
  for (const PartPtr& part : parts) join(agent.clock, part->clock);
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
    m.find(fmt::format("{}: {} is used on two streams", work.what, comm->group->name));
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

ncclResult_t queue_transfers(ncclComm* comm, const std::vector<PartPtr>& parts,
                             cudaStream_t stream) {
  return nccl_call(parts[0]->sends ? "ncclSend" : "ncclRecv", [&](Machine& m, Lock&, Nccl&) {
    const char* const name = parts[0]->sends ? "ncclSend" : "ncclRecv";
    if (!is_usable(m, comm, name)) return ncclInvalidArgument;
    std::vector<Access> accesses;
    for (const PartPtr& part : parts) {
      if (part->peer < 0 || part->peer >= static_cast<int>(comm->group->size)) {
        m.find(fmt::format("{}: peer {} of {} ranks", name, part->peer, comm->group->size));
        return ncclInvalidArgument;
      }
      const std::size_t bytes = part->count * size_of_type(part->type);
      accesses.push_back(part->sends ? read_of(part->data, bytes) : write_of(part->data, bytes));
    }
    return queue(m, comm, stream, {name, std::move(accesses)},
                 [=](Machine& at, Device& device, Agent& agent, std::int64_t ticket) {
                   run_transfers(at, device, agent, *comm, parts, ticket);
                 });
  });
}

}  // namespace zplan::stand_in
