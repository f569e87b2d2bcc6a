// NCCL of the stand-in GPU: communicators come, are split, and go.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/support/gpu/nccl.h"
#include "tests/support/gpu/nccl_marks.h"

namespace zplan::stand_in {
namespace {

// Where it stands: its own start, and the latest split that it takes part in.
ncclResult_t state_of(const Machine& m, const Nccl& nccl, const ncclComm& comm) {
  if (m.communicator_error != 0) return static_cast<ncclResult_t>(m.communicator_error);
  if (comm.error != ncclSuccess) return comm.error;
  if (comm.group == nullptr) return ncclInProgress;
  if (is_cut_off(nccl, *comm.group)) return ncclRemoteError;
  if (!comm.group->is_formed()) return ncclInProgress;
  if (comm.parts.empty()) return ncclSuccess;
  const MeetingKey latest{MeetingKey::Kind::kSplit, std::ssize(comm.parts) - 1};
  return are_all_there(*comm.group, latest) ? ncclSuccess : ncclInProgress;
}

ncclResult_t settled(Machine& m, Lock& lock, Nccl& nccl, ncclComm& comm) {
  if (!comm.is_blocking) return state_of(m, nccl, comm);
  m.last_progress = std::chrono::steady_clock::now();
  m.wait(
      lock, nccl.changed, [&] { return state_of(m, nccl, comm) != ncclInProgress; },
      "the host waits for a communicator");
  return state_of(m, nccl, comm);
}

}  // namespace

ncclResult_t nccl_call(const char* function, const NcclBody& body) {
  Machine& m = Machine::the();
  Lock lock(m.mutex);
  if (const auto error = asked_failure(m, function)) return static_cast<ncclResult_t>(*error);
  return body(m, lock, nccl_of(m));
}

bool is_usable(Machine& m, const ncclComm* comm, const char* function) {
  const auto& all = nccl_of(m).comms;
  const bool is_one =
      std::any_of(all.begin(), all.end(), [&](const ncclComm& c) { return &c == comm; });
  if (!is_one || !comm->is_live) {
    m.find(fmt::format("{}: a communicator that does not exist, or not any more", function));
    return false;
  }
  return true;
}

void mark_in_graph(const void* communicator, int change) {
  if (communicator == nullptr) return;
  auto* comm = static_cast<ncclComm*>(const_cast<void*>(communicator));
  comm->graphs += change;
}

void report_communicators(Machine& m) {
  for (const ncclComm& comm : nccl_of(m).comms)
    if (comm.is_live)
      m.find("left over: " + (comm.group == nullptr ? "a communicator" : comm.group->name()));
}

}  // namespace zplan::stand_in

using namespace zplan::stand_in;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", [&](Machine& m, Lock&, Nccl& nccl) {
    open_links(m);
    *id = {};
    fmt::format_to_n(id->internal, sizeof id->internal - 1, "{}", new_key(nccl));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return nccl_call("ncclCommInitRankConfig", [&](Machine& m, Lock& lock, Nccl& nccl) {
    if (rank < 0 || rank >= size) {
      m.find(fmt::format("ncclCommInitRankConfig: rank {} of {}", rank, size));
      return ncclInvalidArgument;
    }
    open_links(m);
    CommGroup& group = group_of(nccl, id.internal);
    ncclComm& comm = nccl.comms.emplace_back();
    comm.device = &m.current_device();
    comm.is_blocking = config->blocking != 0;
    comm.group = &group;
    comm.rank = rank;
    group.members[rank] = &comm;
    *made = &comm;
    publish(m, {.group = group.key,
                .meeting = {MeetingKey::Kind::kStart},
                .seat = rank,
                .says = {size, comm.device->index, m.options.devices, 0}});
    return settled(m, lock, nccl, comm);
  });
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  return nccl_call("ncclCommSplit", [&](Machine& m, Lock& lock, Nccl& nccl) {
    if (!is_usable(m, parent, "ncclCommSplit")) return ncclInvalidArgument;
    *made = nullptr;
    if (color != NCCL_SPLIT_NOCOLOR) {
      ncclComm& comm = nccl.comms.emplace_back();
      comm.device = parent->device;
      comm.is_blocking = config == nullptr || config->blocking != 0;
      *made = &comm;
    }
    parent->parts.push_back(*made);
    publish(m, {.group = parent->group->key,
                .meeting = {MeetingKey::Kind::kSplit, std::ssize(parent->parts) - 1},
                .seat = parent->rank,
                .says = {color, key, 0, 0}});
    return settled(m, lock, nccl, *parent);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return nccl_call("ncclCommFinalize", [&](Machine& m, Lock&, Nccl&) {
    return is_usable(m, comm, "ncclCommFinalize") ? ncclSuccess : ncclInvalidArgument;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;  // as NCCL has it
  return nccl_call("ncclCommDestroy", [&](Machine& m, Lock&, Nccl&) {
    if (!is_usable(m, comm, "ncclCommDestroy")) return ncclInvalidArgument;
    const bool is_well = comm->device->failed == cudaSuccess;
    if (comm->graphs > 0 && is_well)
      m.find(fmt::format("ncclCommDestroy: graphs have operations of {}; NCCL would wait for ever",
                         comm->group->name()));
    if (comm->unfinished > 0 && is_well)
      m.find(fmt::format("ncclCommDestroy: {} has {} operations to do", comm->group->name(),
                         comm->unfinished));
    comm->is_live = false;
    publish(m,
            {.group = comm->group->key, .meeting = {MeetingKey::Kind::kEnd}, .seat = comm->rank});
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return nccl_call("ncclCommAbort", [&](Machine& m, Lock&, Nccl& nccl) {
    if (!is_usable(m, comm, "ncclCommAbort")) return ncclInvalidArgument;
    comm->is_live = false;
    comm->is_aborted = true;
    nccl.changed.notify_all();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return nccl_call("ncclCommGetAsyncError", [&](Machine& m, Lock&, Nccl& nccl) {
    if (!is_usable(m, comm, "ncclCommGetAsyncError")) return ncclInvalidArgument;
    *state = state_of(m, nccl, *comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return nccl_call("ncclCommCount", [&](Machine& m, Lock&, Nccl&) {
    if (!is_usable(m, comm, "ncclCommCount")) return ncclInvalidArgument;
    *count = static_cast<int>(comm->group->size);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return nccl_call("ncclCommUserRank", [&](Machine& m, Lock&, Nccl&) {
    if (!is_usable(m, comm, "ncclCommUserRank")) return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t) { return "an error of the stand-in"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
