// Communicators of the stand-in's NCCL: who belongs together, and what is under way.
// Internal to tests/support/gpu.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gpu/machine.h"
#include "tests/support/gpu/nccl_links.h"

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
};

using Posts = std::map<int, PostPtr>;  // by seat

// The members of a communicator, as this process knows them.
struct CommGroup {
  struct Meeting {
    Posts posts;
    int left = 0;  // members of this process that are through
  };

  bool is_formed() const { return size > 0; }

  std::string key;            // the same in all processes
  std::string number, ranks;  // "1.2", "of ranks 0 4"
  std::string name() const { return "communicator " + number + " " + ranks; }
  std::size_t size = 0;              // 0: not all have come
  std::map<int, int> processes;      // by rank
  std::map<int, ncclComm*> members;  // by rank, of this process
  std::set<int> gone;                // ranks that have destroyed theirs
  std::map<MeetingKey, Meeting> meetings;
};

struct Nccl {
  std::deque<ncclComm> comms;
  std::map<std::string, CommGroup> groups;  // by key
  int ids = 0;
  std::set<int> lost;  // processes
  std::condition_variable changed;
  std::unique_ptr<Links> links;  // last: its threads use the others
};
Nccl& nccl_of(Machine& m);

// ---- meetings (nccl_board.cpp), all with the lock held ------------------------------------------

// So that other processes can be reached, and reach this one.
void open_links(Machine& m);
// A new communicator of all ranks, and the one that a key is of.
std::string new_key(Nccl& nccl);
CommGroup& group_of(Nccl& nccl, const std::string& key);
// Whether a process of the communicator ended before it had destroyed its part.
bool is_cut_off(const Nccl& nccl, const CommGroup& group);
bool are_all_there(const CommGroup& group, const MeetingKey& key);
// What a member of this process says, to all members.
void publish(Machine& m, Post post);
// Posts what the member says and returns what all members say at each of these meetings when they
// have come, with what they know to be done. Nothing: the communicator was aborted, or the machine
// is at its end.
std::vector<Posts> meet(Machine& m, Lock& lock, Agent& agent, ncclComm& comm, std::vector<Post> own,
                        const std::string& what);
// Whether what one member is at waits for another one.
bool waits_for(const ncclComm& comm, int rank);
// The finding, after which nothing of the machine works.
void break_down(Machine& m, const std::string& finding);

// ---- operations ---------------------------------------------------------------------------------

// Queues the operation; `parts`: a group of transfers, else the collective.
ncclResult_t queue_collective(ncclComm* comm, const Collective& call, cudaStream_t stream);
ncclResult_t queue_transfers(ncclComm* comm, const std::vector<Part>& parts, cudaStream_t stream);

using NcclBody = std::function<ncclResult_t(Machine&, Lock&, Nccl&)>;
ncclResult_t nccl_call(const char* function, const NcclBody& body);
// A communicator that may be used, else a finding.
bool is_usable(Machine& m, const ncclComm* comm, const char* function);

const char* name_of(Kind kind);
std::size_t size_of_type(ncclDataType_t type);
// The member's output, of what all say. In the order of ranks, 16-bit values rounded after each
// addition.
void compute(const Collective& call, const Posts& all, int rank);

}  // namespace zplan::stand_in

struct ncclComm {
  zplan::stand_in::CommGroup* group = nullptr;  // null: has yet to be formed
  int rank = 0;
  zplan::stand_in::Device* device = nullptr;
  bool is_blocking = true, is_live = true, is_aborted = false;
  std::vector<ncclComm*> parts;  // by split; null: this rank has none
  std::int64_t collectives = 0, unfinished = 0, graphs = 0;
  std::map<int, std::int64_t> sent, received;   // by peer
  std::vector<zplan::stand_in::MeetingKey> at;  // meetings of the operation that runs
  const zplan::stand_in::Stream* stream = nullptr;
  ncclResult_t error = ncclSuccess;
  bool is_inside = false, is_entering = false;  // of an operation that needs the device
};
