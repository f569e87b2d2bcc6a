// A GPU made of threads, for tests: the functions of the CUDA runtime, the driver, cuBLASLt and
// NCCL that exec/cuda calls, so that its sources run unchanged where there is no device. Kernels
// run through tests/support/cuda_on_host.h. It computes, and it judges: what a device would suffer
// in silence, or only now and then, is a finding here (findings()).
//   streams    work of a stream is in order; streams share a number of hardware queues, in each of
//              which one task at a time runs or waits, a little late at random
//   memory     every known access lies in one live allocation and is ordered with those that it
//              collides with (clocks.h): copies, fills, products, communication, what kernels are
//              declared to touch or say by their arguments (queued_launch.h), and what threads of
//              the host say that they do, who are ordered with streams by flags
//   captures   follow the rules of stream capture; nothing is allocated meanwhile
//   products   leading dimensions, alignment, auxiliary matrices, workspace [cublasLt.h]
//   NCCL       members agree on each operation; so many collectives are on a device at a time;
//              communicators stand in the order of launches only if they were told to
// A call that is wrong also returns an error, as the library would where it notices.
// Ranks are threads of a process or of several, which have a machine each (nccl_links.h): members
// of a communicator on one host meet wherever they are. Who ends leaves the others an asynchronous
// error, ncclRemoteError, and nobody waits for ever who is aborted.
// Left out: speed, the text of messages, functions that exec/cuda does not call; between processes,
// that communicators on several streams wait for each other in a circle is found as a standstill.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/gpu/clocks.h"

namespace zplan::stand_in {

struct Options {
  int devices = 1;
  int capability = 90;                         // 10 x major + minor
  int driver_version = 0;                      // 0: that of the toolkit
  std::size_t memory = std::size_t{2} << 30;   // bytes of a device
  std::uint64_t delay_seed = 1;                // 0: no delays
  int hardware_queues = 0;                     // 0: CUDA_DEVICE_MAX_CONNECTIONS, else 8
  int resident_collectives = 1;                // at a time, on a device
  std::size_t process = 0, processes = 1;      // that communicate: their clocks are one
  bool has_epilogues = true;                   // products with one are offered
  std::vector<std::string> missing_symbols{};  // of the driver
  std::chrono::milliseconds patience{60'000};  // until a device that stands still is found out
};

class Machine;

// There is one at a time. When it goes, whatever was made and not given back is a finding, too.
class StandIn {
 public:
  explicit StandIn(const Options& options = {});
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  // One line each, in the order they were made.
  std::vector<std::string> findings() const;
  // The same, after which the machine is as at its end: what is left over is among them.
  std::vector<std::string> close();

  // The next call of the function, or the n-th after it, returns this error and does nothing.
  void fail_call(const std::string& function, int error, int n = 1);
  // The n-th task from now on of any stream of the device fails, and with it the device for good.
  void fail_task(int device, int error, int n = 1);
  // What ncclCommGetAsyncError says of every communicator from now on.
  void fail_communicators(int error);
  // From now on until told otherwise: an allocation is a finding.
  void forbid_allocations(bool forbid);

  // The NUMA node that the thread preferred which last asked for pinned memory.
  std::optional<int> pinned_node() const;

  std::int64_t tasks() const;             // that have run
  std::int64_t launches() const;          // of graphs
  std::int64_t collectives() const;       // and transfers
  std::int64_t collective_bytes() const;  // that NCCL was told to move, by the count of each call

 private:
  std::unique_ptr<Machine> machine_;
};

// While it lives, kernels that this thread queues are known to make these accesses.
class DeclaredAccesses {
 public:
  explicit DeclaredAccesses(std::vector<Access> accesses);
  ~DeclaredAccesses();
  DeclaredAccesses(const DeclaredAccesses&) = delete;
  DeclaredAccesses& operator=(const DeclaredAccesses&) = delete;
};

// While it lives, a thread of the host makes these accesses, after all that any flag has told of by
// then. A stream that waits for a flag of the host comes after what is over. `line`: what is in
// order by itself.
class HostWork {
 public:
  HostWork(const std::string& line, const std::string& what, const std::vector<Access>& accesses);
  ~HostWork();
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

 private:
  std::string line_;
};

}  // namespace zplan::stand_in
