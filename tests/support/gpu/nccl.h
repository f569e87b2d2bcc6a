// Communicators of the stand-in's NCCL: who belongs together, and what is under way.
// Internal to tests/support/gpu.
#pragma once

#include <nccl.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gpu/machine.h"

namespace zplan::stand_in {

enum class Kind { kAllGather, kReduceScatter, kAllReduce, kBroadcast, kReduce };

struct Collective {
  Kind kind;
  std::size_t count;
  ncclDataType_t type;
  int root;
  const void* input;
  void* output;
};

// One side of a transfer.
struct Part {
  bool sends;
  int peer;
  void* data;
  std::size_t count;
  ncclDataType_t type;
  Clock clock{};
  bool is_done = false;
};
using PartPtr = std::shared_ptr<Part>;

// Of the members of a communicator.
struct CommGroup {
  struct Meeting {
    std::map<int, Collective> calls;  // by rank
    Clock clock;
    bool is_done = false;
    int left = 0;
  };
  struct Pair {
    std::deque<PartPtr> sends, receives;
  };
  struct Split {
    struct Member {
      int key, rank;
      ncclComm* comm;
    };
    int came = 0;
    std::map<int, std::vector<Member>> by_color;
  };

  std::string name;
  std::size_t size = 0;
  std::vector<ncclComm*> members;  // by rank; null: has not come
  std::size_t came = 0;
  std::map<std::int64_t, Meeting> meetings;  // by number
  std::map<std::pair<int, int>, Pair> pairs;
  std::map<int, Split> splits;  // by number
};

struct Nccl {
  std::deque<ncclComm> comms;
  std::deque<CommGroup> groups;
  std::map<std::string, CommGroup*> by_id;
  int ids = 0;
  std::condition_variable changed;
};
Nccl& nccl_of(Machine& m);

// Queues the operation; `parts`: a group of transfers, else the collective.
ncclResult_t queue_collective(ncclComm* comm, const Collective& call, cudaStream_t stream);
ncclResult_t queue_transfers(ncclComm* comm, const std::vector<PartPtr>& parts,
                             cudaStream_t stream);

using NcclBody = std::function<ncclResult_t(Machine&, Lock&, Nccl&)>;
ncclResult_t nccl_call(const char* function, const NcclBody& body);
// A communicator that may be used, else a finding.
bool is_usable(Machine& m, const ncclComm* comm, const char* function);

const char* name_of(Kind kind);
std::size_t size_of_type(ncclDataType_t type);
// In the order of ranks, 16-bit values rounded after each addition.
void compute(const std::map<int, Collective>& calls);

}  // namespace zplan::stand_in

struct ncclComm {
  zplan::stand_in::CommGroup* group = nullptr;  // null: has yet to be formed
  int rank = 0;
  zplan::stand_in::Device* device = nullptr;
  bool is_blocking = true, is_live = true, is_aborted = false;
  int splits = 0;
  std::int64_t meetings = 0, unfinished = 0, graphs = 0;
  const zplan::stand_in::Stream* stream = nullptr;
  ncclResult_t error = ncclSuccess;
  bool is_inside = false, is_entering = false;  // of an operation that needs the device
};
