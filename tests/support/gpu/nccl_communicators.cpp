// NCCL of the stand-in GPU: communicators come, are split, and go.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/support/gpu/nccl.h"
#include "tests/support/gpu/nccl_marks.h"

namespace zplan::stand_in {
namespace {

bool is_formed(const ncclComm& comm) {
  return comm.group != nullptr && comm.group->came == comm.group->size;
}

CommGroup& make_group(Nccl& nccl, std::size_t size, const std::string& ranks) {
  CommGroup& group = nccl.groups.emplace_back();
  group.name = fmt::format("communicator {} {}", nccl.groups.size(), ranks);
  group.size = size;
  group.members.resize(size);
  return group;
}

void join_group(Machine& m, CommGroup& group, ncclComm& comm, int rank) {
  comm.group = &group;
  comm.rank = rank;
  for (const ncclComm* other : group.members)
    if (other != nullptr && other->device == comm.device)
      m.find(fmt::format("{}: two of its ranks are on device {}", group.name, comm.device->index));
  if (group.members[static_cast<std::size_t>(rank)] != nullptr)
    m.find(fmt::format("{}: rank {} comes twice", group.name, rank));
  group.members[static_cast<std::size_t>(rank)] = &comm;
  ++group.came;
}

// All have come: those of a color become a communicator.
void form(Machine& m, Nccl& nccl, CommGroup::Split& split) {
  for (auto& [color, members] : split.by_color) {
    std::sort(members.begin(), members.end(), [](const auto& x, const auto& y) {
      return std::pair(x.key, x.rank) < std::pair(y.key, y.rank);
    });
    std::string ranks;
    for (const auto& member : members)
      ranks += fmt::format("{}{}", ranks.empty() ? "" : " ", member.rank);
    CommGroup& group = make_group(nccl, members.size(), "of ranks " + ranks);
    for (std::size_t i = 0; i < members.size(); ++i)
      join_group(m, group, *members[i].comm, static_cast<int>(i));
  }
}

// Where it stands: its own start, and the latest split that it takes part in.
ncclResult_t state_of(const Machine& m, const ncclComm& comm) {
  if (m.communicator_error != 0) return static_cast<ncclResult_t>(m.communicator_error);
  if (comm.error != ncclSuccess) return comm.error;
  if (!is_formed(comm)) return ncclInProgress;
  if (comm.splits == 0) return ncclSuccess;
  const CommGroup::Split& latest = comm.group->splits[comm.splits - 1];
  return latest.came == static_cast<int>(comm.group->size) ? ncclSuccess : ncclInProgress;
}

ncclResult_t settled(Machine& m, Lock& lock, Nccl& nccl, ncclComm& comm) {
  if (!comm.is_blocking) return state_of(m, comm);
  m.last_progress = std::chrono::steady_clock::now();
  m.wait(
      lock, nccl.changed, [&] { return state_of(m, comm) != ncclInProgress; },
      "the host waits for a communicator");
  return state_of(m, comm);
}

}  // namespace

Nccl& nccl_of(Machine& m) {
  if (m.nccl == nullptr) m.nccl = std::make_shared<Nccl>();
  return *static_cast<Nccl*>(m.nccl.get());
}

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
      m.find("left over: " + (comm.group == nullptr ? "a communicator" : comm.group->name));
}

}  // namespace zplan::stand_in

using namespace zplan::stand_in;

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return nccl_call("ncclGetUniqueId", [&](Machine&, Lock&, Nccl& nccl) {
    *id = {};
    fmt::format_to_n(id->internal, sizeof id->internal - 1, "stand-in {}", nccl.ids++);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return nccl_call("ncclCommInitRankConfig", [&](Machine& m, Lock& lock, Nccl& nccl) {
    CommGroup*& group = nccl.by_id[id.internal];
    if (group == nullptr) group = &make_group(nccl, static_cast<std::size_t>(size), "of all ranks");
    if (rank < 0 || rank >= size || group->size != static_cast<std::size_t>(size)) {
      m.find(fmt::format("ncclCommInitRankConfig: rank {} of {}", rank, size));
      return ncclInvalidArgument;
    }
    ncclComm& comm = nccl.comms.emplace_back();
    comm.device = &m.current_device();
    comm.is_blocking = config->blocking != 0;
    join_group(m, *group, comm, rank);
    *made = &comm;
    nccl.changed.notify_all();
    return settled(m, lock, nccl, comm);
  });
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  return nccl_call("ncclCommSplit", [&](Machine& m, Lock& lock, Nccl& nccl) {
    if (!is_usable(m, parent, "ncclCommSplit")) return ncclInvalidArgument;
    CommGroup::Split& split = parent->group->splits[parent->splits++];
    *made = nullptr;
    if (color != NCCL_SPLIT_NOCOLOR) {
      ncclComm& comm = nccl.comms.emplace_back();
      comm.device = parent->device;
      comm.is_blocking = config == nullptr || config->blocking != 0;
      split.by_color[color].push_back({key, parent->rank, &comm});
      *made = &comm;
    }
    if (++split.came == static_cast<int>(parent->group->size)) form(m, nccl, split);
    nccl.changed.notify_all();
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
                         comm->group->name));
    if (comm->unfinished > 0 && is_well)
      m.find(fmt::format("ncclCommDestroy: {} has {} operations to do", comm->group->name,
                         comm->unfinished));
    comm->is_live = false;
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
  return nccl_call("ncclCommGetAsyncError", [&](Machine& m, Lock&, Nccl&) {
    if (!is_usable(m, comm, "ncclCommGetAsyncError")) return ncclInvalidArgument;
    *state = state_of(m, *comm);
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
