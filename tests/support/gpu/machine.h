// The stand-in GPU from the inside: agents, tasks, hardware queues, memory and findings. One mutex
// guards all of it but the work of tasks. Internal to tests/support/gpu.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/gpu/stand_in.h"

namespace zplan::stand_in {

using Lock = std::unique_lock<std::mutex>;
using TimePoint = std::chrono::steady_clock::time_point;

// Something that is reached once, and what came before it.
struct Moment {
  bool reached = false;
  Clock clock;
  TimePoint time;
  std::condition_variable changed;
};
using MomentPtr = std::shared_ptr<Moment>;

struct Agent {
  std::size_t number = 0;
  std::string name;  // "stream 3 of device 0"
  Clock clock;
};

struct Device;

// What a task does; graphs do it again and again.
struct Work {
  std::string what;
  std::vector<Access> accesses{};
  std::function<void(Machine&, Device&, Agent&)> body{};  // called without the lock
  const void* communicator = nullptr;
};

struct Task {
  Work work;
  Agent* agent;
  Device* device;
  std::vector<MomentPtr> after;
  MomentPtr done;
  Clock host;  // what the launching thread knew to be done
  std::int64_t* unfinished;
};

// A hardware queue: one task after the other, whichever streams they are of.
class Worker {
 public:
  explicit Worker(Machine& machine) : machine_(machine), thread_([this] { run(); }) {}
  ~Worker() { thread_.join(); }  // once the machine stops
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void push(Task task);  // with the lock held

 private:
  void run();
  void execute(Lock& lock, Task& task);
  void delay();

  Machine& machine_;
  std::deque<Task> tasks_;
  std::condition_variable changed_;
  std::uint64_t draws_ = 0;
  std::thread thread_;  // last: it uses the others
};

struct GraphNode {
  Work work;
  std::size_t branch;
  std::vector<std::size_t> after;
};

struct Graph {
  Device* device = nullptr;
  struct Stream* origin = nullptr;
  std::vector<GraphNode> nodes;
  std::vector<int> priorities;  // by branch, of the stream it was captured from
  bool is_ended = false, is_invalid = false, is_live = true;
  std::optional<std::size_t> last_communication;
};

struct GraphExec {
  Graph graph;
  bool is_live = true;
};

// Of a stream that is being captured.
struct Capture {
  Graph* graph = nullptr;
  std::size_t branch = 0;
  std::set<std::size_t> last;  // nodes that the next one comes after
};

struct Branch {
  explicit Branch(Machine& machine) : worker(machine) {}
  Agent agent;
  std::int64_t unfinished = 0;
  Worker worker;
};

struct Stream {
  Device* device = nullptr;
  Agent agent;
  Worker* worker = nullptr;
  int priority = 0;
  bool is_live = true, is_used = false;
  std::int64_t unfinished = 0;
  MomentPtr last;
  std::optional<Capture> capture;
  std::deque<Branch> branches;  // of graphs launched here
};

struct Event {
  Device* device = nullptr;
  bool has_timing = false, is_live = true;
  MomentPtr last;          // its latest recording, outside of captures
  Graph* graph = nullptr;  // or the graph that it was recorded for, after these nodes
  std::set<std::size_t> nodes;
};

struct Allocation {
  std::unique_ptr<std::byte[]> storage;
  std::byte* begin = nullptr;
  std::size_t size = 0;
  int device = -1;  // -1: pinned memory of the host
  bool is_live = true;
  std::int64_t unfinished = 0;  // tasks that touch it
  Journal journal;
};

struct Device {
  int index = 0;
  cudaError_t failed = cudaSuccess;
  std::size_t used = 0;
  int streams = 0;
  std::vector<std::unique_ptr<Worker>> queues;
  Stream* null_stream = nullptr;
  std::optional<std::thread::id> first_user;  // of its streams
  int captures = 0;                           // under way
  int tasks_to_failure = 0;                   // 0: none is to come
  cudaError_t failure = cudaSuccess;
  // Of NCCL: operations that run, and the order of launches.
  int collectives = 0, transfers = 0;
  std::int64_t next_ticket = 0, tickets = 0;
};

class Machine {
 public:
  explicit Machine(const Options& options);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  static Machine& the();

  // ---- all with the lock held
  void find(std::string finding);
  // Streams may stay that never run where several threads are the first to use them
  // (exec/cuda/first_work.h).
  void check_first_use(Stream& stream);
  Device& current_device();
  Stream* stream_of(cudaStream_t handle, const std::string& user);
  Stream& make_stream(Device& device, int priority);
  Agent make_agent(std::string name);
  // Queues the work, or adds it to the graph that the stream is captured for.
  cudaError_t submit(Stream& stream, Work work, std::vector<MomentPtr> after = {},
                     MomentPtr done = nullptr);
  // Until it holds or the machine is at its end; `what`: for whom standing still is reported to.
  bool wait(Lock& lock, std::condition_variable& changed, const std::function<bool()>& holds,
            const std::string& what, bool is_for_host = false);
  void await(Lock& lock, const MomentPtr& moment, const std::string& what);
  void await_device(Lock& lock, Device& device, const std::string& what);
  // Whether the bytes lie in one allocation, else a finding. Null: it is pageable memory.
  Allocation* allocation_of(const void* address);
  bool check_range(const Access& access, const std::string& what, bool may_be_pageable = false);
  void note(const Access& access, const Agent& agent, const std::string& what);
  void fail(Device& device, cudaError_t error);
  void count_collective(std::size_t bytes) {
    ++collectives;
    collective_bytes += static_cast<std::int64_t>(bytes);
  }
  void report_leftovers();
  void stop();

  std::mutex mutex;
  Options options;
  std::vector<std::string> findings;
  std::deque<Device> devices;
  std::deque<Stream> streams;
  std::deque<Event> events;
  std::deque<Graph> graphs;
  std::deque<GraphExec> executables;
  std::map<const std::byte*, Allocation> allocations;
  std::size_t agents = 0;
  Clock host;                               // what threads of the host know to be done
  Clock flags;                              // what is before any write of a stream to a flag
  std::map<std::string, Agent> host_lines;  // threads that say what they do (HostWork)
  Clock host_work;                          // what they have done
  struct FlagWrite {
    std::uint64_t value;
    Clock clock;
  };
  std::map<const void*, std::deque<FlagWrite>> flag_writes;
  std::map<std::string, std::deque<std::pair<int, int>>> call_failures;  // calls to come, error
  int communicator_error = 0;
  bool forbids_allocations = false;
  std::optional<int> pinned_node;  // that the thread preferred at the last allocation
  bool has_failed = false;  // a device or a call: queues are brought to their end in no order
  bool is_stopping = false, is_broken = false;
  std::map<std::thread::id, std::pair<std::string, bool>> blocked;
  std::set<std::thread::id> computing;
  TimePoint last_progress = std::chrono::steady_clock::now();
  std::int64_t tasks = 0, launches = 0, collectives = 0, collective_bytes = 0;
  std::int64_t unfinished = 0;
  std::shared_ptr<void> nccl;  // its communicators (nccl.h)
};

// ---- calls -------------------------------------------------------------------------------------

// Runs body(machine, lock) as a call of the thread: after failures to be had, with what it returns
// as the thread's last error. `always`: also on a device that has failed.
using CallBody = std::function<cudaError_t(Machine&, Lock&)>;
cudaError_t call(const char* function, const CallBody& body, bool always = false);
// The n-th failure that a test has asked for.
std::optional<int> asked_failure(Machine& machine, const std::string& function);

int& thread_device();
cudaError_t& thread_error();
const std::vector<Access>& declared_accesses();

// Work of a kernel, which makes the accesses that the thread has declared, and these where they
// touch none of the declared. The thread's last error, as a launch tells it, comes back.
cudaError_t queue_kernel(cudaStream_t stream, const char* name, std::int64_t blocks, int threads,
                         std::function<void()> kernel, const std::vector<Access>& accesses = {});

std::string range_text(const Access& access);

}  // namespace zplan::stand_in
