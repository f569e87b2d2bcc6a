#include "exec/cuda/nccl_comm.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "planner/core/error.h"
#include "planner/program/job/meetings.h"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1), "ncclCommSplit is needed");

namespace zplan::exec::cuda {
namespace {

// [assumed] operations of a lane that may be queued before two of them share an event.
constexpr std::size_t kWatchedPerLane = 64;
constexpr std::chrono::milliseconds kPollInterval{1};

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF32:
      return ncclFloat32;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBf16:
      return ncclBfloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kU8:
      return ncclUint8;
  }
  ZPLAN_ASSERT(false);
  return ncclInt8;
}

// [NCCL] What the library has no call for is a send or a receive for each part that is copied, to
// and from the member itself too, as one operation of the group call that they stand in. What the
// first of them reports counts; the group is ended all the same.
ncclResult_t queue_copies(const CollectiveCall& call, ncclComm_t comm, cudaStream_t stream) {
  int members = 0, own = 0;
  if (const ncclResult_t asked = ncclCommCount(comm, &members); asked != ncclSuccess) return asked;
  if (const ncclResult_t asked = ncclCommUserRank(comm, &own); asked != ncclSuccess) return asked;
  const CollectiveRow& row = row_of(call.kind);
  const std::int64_t bytes = call.elements * size_of(call.dtype).value;
  const auto n = static_cast<std::size_t>(call.elements);
  const ncclDataType_t type = nccl_type(call.dtype);
  if (const ncclResult_t begun = ncclGroupStart(); begun != ncclSuccess) return begun;
  ncclResult_t result = ncclSuccess;
  for (int to = 0; to < members; ++to) {
    if (!takes_part(row.output, to, call.root)) continue;
    for (int j = 0; j < parts_of(row.output, members) && result == ncclSuccess; ++j) {
      const PartOf from = source_of(call.kind, members, call.root, to, j);
      if (from.member == own)
        result = ncclSend(call.input + from.part * bytes, n, type, to, comm, stream);
      if (to == own && result == ncclSuccess)
        result = ncclRecv(call.output + j * bytes, n, type, from.member, comm, stream);
    }
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

// A call of the library, of n elements a part.
using LibraryCall = ncclResult_t (*)(const CollectiveCall& call, std::size_t n, ncclDataType_t type,
                                     ncclComm_t comm, cudaStream_t stream);

// The one place that knows which collectives the library has calls for; null: it has none.
constexpr LibraryCall library_call(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return [](const CollectiveCall& call, std::size_t n, ncclDataType_t type, ncclComm_t comm,
                cudaStream_t stream) {
        return ncclAllGather(call.input, call.output, n, type, comm, stream);
      };
    case CollectiveKind::kReduceScatter:
      return [](const CollectiveCall& call, std::size_t n, ncclDataType_t type, ncclComm_t comm,
                cudaStream_t stream) {
        return ncclReduceScatter(call.input, call.output, n, type, ncclSum, comm, stream);
      };
    case CollectiveKind::kAllReduce:
      return [](const CollectiveCall& call, std::size_t n, ncclDataType_t type, ncclComm_t comm,
                cudaStream_t stream) {
        return ncclAllReduce(call.input, call.output, n, type, ncclSum, comm, stream);
      };
    case CollectiveKind::kBroadcast:
      return [](const CollectiveCall& call, std::size_t n, ncclDataType_t type, ncclComm_t comm,
                cudaStream_t stream) {
        return ncclBroadcast(call.input, call.output, n, type, call.root, comm, stream);
      };
    case CollectiveKind::kReduce:
      return [](const CollectiveCall& call, std::size_t n, ncclDataType_t type, ncclComm_t comm,
                cudaStream_t stream) {
        return ncclReduce(call.input, call.output, n, type, ncclSum, call.root, comm, stream);
      };
    default:
      return nullptr;
  }
}

constexpr bool all_can_be_queued() {
  for (int i = 0; i < kCollectiveKindCount; ++i)
    if (const auto kind = static_cast<CollectiveKind>(i);
        adds_up(kind) && library_call(kind) == nullptr)
      return false;
  return true;
}
static_assert(all_can_be_queued(), "a sum needs a call of the library");

ncclResult_t queue_collective(const CollectiveCall& call, ncclComm_t comm, cudaStream_t stream) {
  const LibraryCall queue = library_call(call.kind);
  if (queue == nullptr) return queue_copies(call, comm, stream);
  const auto n = static_cast<std::size_t>(call.elements);
  return queue(call, n, nccl_type(call.dtype), comm, stream);
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

std::string seconds_text(std::chrono::nanoseconds duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

// Sleeps a little. Throws when the deadline, counted from `start`, has passed.
class Patience {
 public:
  Patience(std::int32_t rank, std::chrono::seconds deadline, const std::string& what)
      : rank_(rank), deadline_(deadline), what_(what) {}
  void wait() const {
    if (std::chrono::steady_clock::now() - start_ > deadline_) {
      throw Error(ExitCode::kDevice, "rank " + std::to_string(rank_) + ": " + what_ +
                                         " is not done after " + seconds_text(deadline_) +
                                         ": another rank is missing");
    }
    std::this_thread::sleep_for(kPollInterval);
  }

 private:
  const TimePoint start_ = std::chrono::steady_clock::now();
  const std::int32_t rank_;
  const std::chrono::seconds deadline_;
  const std::string& what_;
};

}  // namespace

NcclComm::NcclComm(CudaQueues& queues, const ProcessGroup& processes)
    : job_(*processes.job),
      rank_(processes.rank),
      program_(job_.class_of(rank_).program),
      queues_(queues),
      deadline_(processes.deadline),
      check_processes_(processes.check) {
  cuda::check(cudaSetDevice(queues.device()), "cudaSetDevice");
  make_first_memory();
  connect(processes);
  use_once();
}

NcclComm::~NcclComm() {
  for (const auto& communicator : communicators_)
    ncclCommDestroy(std::exchange(communicator->comm, nullptr));
}

// One that was not destroyed in good order, or was never completed.
NcclComm::Communicator::~Communicator() {
  if (comm != nullptr) ncclCommAbort(comm);
}

std::string NcclComm::describe(const Use& use) const {
  const std::string what = use.transfers ? "transfers along " : "group ";
  return what + name(job_.mesh, use.group) + " on lane " + std::string(name(use.lane));
}

// Neighbouring pairs take turns; in a ring of an odd number of places the last has one of its own.
NcclComm::Use NcclComm::use_of(std::int32_t stage, const Node& node) const {
  if (!is_transfer(node.kind)) return {node.lane, false, node.group};
  AxisSet axis;
  axis.add(node.peer.axis);
  const bool sends = node.kind == OpKind::kSend;
  const std::int32_t sender = sends ? stage : *peer_stage(job_.mesh, stage, node.peer);
  const std::int32_t places = job_.mesh.size(axis);
  const bool closes = places % 2 == 1 && sender == (leads_up(node.lane) ? places - 1 : 0);
  return {sending_lane(node.lane), true, {axis}, closes ? 2 : sender % 2};
}

// In the same order on all ranks. Groups of one need nothing.
std::vector<NcclComm::Use> NcclComm::uses() const {
  std::set<Use> uses;
  for (const RankClass& c : job_.classes) {
    for (const Node& node : c.program.nodes) {
      const bool meets = node.kind == OpKind::kCollective && job_.mesh.size(node.group) > 1;
      if (is_transfer(node.kind) || meets) uses.insert(use_of(c.stage, node));
    }
  }
  return {uses.begin(), uses.end()};
}

// The members of a group have the same collectives, so all of them take part or none.
bool NcclComm::takes_part(const Use& use) const {
  return std::any_of(program_.nodes.begin(), program_.nodes.end(), [&](const Node& node) {
    return (is_transfer(node.kind) || node.kind == OpKind::kCollective) && use_of(node) == use;
  });
}

// The lane that the rank uses it on.
Lane NcclComm::lane_of(const Communicator& communicator) const {
  const std::optional<Node> sent = transfer(communicator.use);
  return sent ? sent->lane : communicator.use.lane;
}

ncclComm_t NcclComm::find(const Use& use) const {
  const auto found = std::find_if(communicators_.begin(), communicators_.end(),
                                  [&](const auto& c) { return c->use == use; });
  ZPLAN_ASSERT(found != communicators_.end());
  return (*found)->comm;
}

void NcclComm::connect_world(Communicator& world, const ProcessGroup& processes) {
  ncclUniqueId id{};
  std::string own;
  if (rank_ == 0) {
    settle(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId");
    own.assign(id.internal, sizeof id.internal);
  }
  const std::vector<std::string> ids = processes.exchange(own);
  if (ids.empty() || ids.front().size() != sizeof id.internal)
    throw Error(ExitCode::kDevice, "rank 0 has sent no NCCL identifier");
  std::memcpy(id.internal, ids.front().data(), sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::string what = "connecting " + std::to_string(job_.world()) + " ranks";
  const ncclResult_t result = ncclCommInitRankConfig(&world.comm, job_.world(), id, rank_, &config);
  settle(result, world.comm, what);
}

// What was split off the world stands alone. It may go when all ranks are through with it, and is
// gone before anything runs: where ranks are threads of one process, freeing memory may wait for
// what runs, and that for a rank that is behind.
void NcclComm::connect(const ProcessGroup& processes) {
  Communicator world;
  connect_world(world, processes);
  for (const Use& use : uses()) split(world, use);
  processes.exchange({});
  settle(ncclCommFinalize(world.comm), world.comm, "disconnecting");
  ncclCommDestroy(std::exchange(world.comm, nullptr));
  processes.exchange({});
}

// All ranks take part in the split, also those that get nothing of it. Of a pair the sender has
// number 0.
void NcclComm::split(Communicator& world, const Use& use) {
  const std::optional<Node> sent = transfer(use);
  const bool joins = takes_part(use);
  int color = NCCL_SPLIT_NOCOLOR, key = 0;
  if (sent) {
    const std::int32_t other = peer_rank(job_.mesh, rank_, sent->peer);
    key = sent->kind == OpKind::kSend ? 0 : 1;
    color = key == 0 ? rank_ : other;
  } else if (joins) {
    const Members group = members_of(job_.mesh, use.group, rank_);
    color = *std::min_element(group.ranks.begin(), group.ranks.end());
    key = group.own_index;
  }
  communicators_.push_back(std::make_unique<Communicator>());
  Communicator& part = *communicators_.back();
  part.use = use;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  const std::string what = "connecting: " + describe(use);
  settle(ncclCommSplit(world.comm, color, key, &part.comm, &config), world.comm, what);
  if (!joins) {
    communicators_.pop_back();
    return;
  }
  wait_until_ready(part.comm, what);
  LaneWatch& watch = watches_[static_cast<std::size_t>(lane_of(part))];
  if (watch.operations) return;
  for (std::size_t i = 0; i < kWatchedPerLane; ++i) watch.events.push_back(make_cuda_event(false));
  watch.operations.emplace(kWatchedPerLane, deadline_);
}

void NcclComm::make_first_memory() {
  void* memory = nullptr;
  const std::size_t bytes = sizeof(float) * 2 * static_cast<std::size_t>(job_.world());
  cuda::check(cudaMalloc(&memory, bytes), "cudaMalloc");
  first_use_.reset(memory);
  cuda::check(cudaMemset(memory, 0, bytes), "cudaMemset");
  cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void NcclComm::use_once() {
  for (const auto& communicator : communicators_) {
    if (!takes_part(communicator->use)) continue;
    queue_once(*communicator, static_cast<std::byte*>(first_use_.get()));
    wait_until_done(*communicator);
  }
  first_use_.reset();
}

// `memory`: float32 [2, world]
void NcclComm::queue_once(const Communicator& communicator, std::byte* memory) {
  const Use& use = communicator.use;
  const ncclComm_t comm = communicator.comm;
  const cudaStream_t stream = queues_.stream(lane_of(communicator));
  const std::string what = "first use: " + describe(communicator.use);
  std::byte* const output = memory + sizeof(float) * static_cast<std::size_t>(job_.world());
  if (!use.transfers) {
    for (CollectiveKind kind : collectives(use)) {
      const CollectiveCall call{kind, DType::kF32, 1, memory, output, 0};
      settle(queue_collective(call, comm, stream), comm, what);
    }
    return;
  }
  const bool sends = transfer(communicator.use)->kind == OpKind::kSend;
  settle(sends ? ncclSend(memory, 1, ncclFloat32, 1, comm, stream)
               : ncclRecv(output, 1, ncclFloat32, 0, comm, stream),
         comm, what);
}

std::set<CollectiveKind> NcclComm::collectives(const Use& use) const {
  std::set<CollectiveKind> kinds;
  for (const Node& n : program_.nodes) {
    if (n.kind == OpKind::kCollective && use_of(n) == use) kinds.insert(n.collective);
  }
  return kinds;
}

// A transfer of this rank that is of the use; none: it has none.
std::optional<Node> NcclComm::transfer(const Use& use) const {
  for (const Node& n : program_.nodes)
    if (is_transfer(n.kind) && use_of(n) == use) return n;
  return std::nullopt;
}

void NcclComm::wait_until_ready(ncclComm_t comm, const std::string& what) const {
  const Patience patience(rank_, deadline_, what);
  for (ncclResult_t state = ncclInProgress;; patience.wait()) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) fail(asked, comm, what);
    if (state == ncclSuccess) return;
    if (state != ncclInProgress) fail(state, comm, what);
    check_processes_();  // NCCL does not miss who is lost before it connects
  }
}

void NcclComm::wait_until_done(const Communicator& communicator) const {
  const std::string what = "first use: " + describe(communicator.use);
  const Patience patience(rank_, deadline_, what);
  const cudaStream_t stream = queues_.stream(lane_of(communicator));
  cudaError_t state = cudaStreamQuery(stream);
  for (; state == cudaErrorNotReady; state = cudaStreamQuery(stream)) {
    wait_until_ready(communicator.comm, what);
    check_processes_();
    patience.wait();
  }
  cudaGetLastError();  // "not ready" is remembered like a failure
  cuda::check(state, "cudaStreamQuery");
}

void NcclComm::fail(ncclResult_t result, ncclComm_t comm, const std::string& what) const {
  std::string text = "rank " + std::to_string(rank_) + ": " + what +
                     ": NCCL reports: " + ncclGetErrorString(result);
  const char* const detail = comm == nullptr ? nullptr : ncclGetLastError(comm);
  if (detail != nullptr && *detail != '\0') text += std::string(" (") + detail + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  throw Error(ExitCode::kDevice, text);
}

void NcclComm::settle(ncclResult_t result, ncclComm_t comm, const std::string& what) const {
  if (result == ncclInProgress) return wait_until_ready(comm, what);
  if (result != ncclSuccess) fail(result, comm, what);
}

void NcclComm::queued(ncclResult_t result, ncclComm_t comm, const Instance& at) {
  const OpId op = op_id(program_, node(at), at.env);
  if (result != ncclSuccess) settle(result, comm, op_name(op));
  const Lane lane = node(at).lane;
  if (!is_capturing(queues_.stream(lane))) return watch(lane, op);
  std::optional<OpId>& captured = watches_[static_cast<std::size_t>(lane)].captured;
  if (!captured) captured = op;
}

void NcclComm::watch(Lane lane, OpId op) {
  LaneWatch& watch = watches_[static_cast<std::size_t>(lane)];
  const std::size_t event = watch.operations->queue(op, std::chrono::steady_clock::now());
  cuda::check(cudaEventRecord(watch.events[event].get(), queues_.stream(lane)), "cudaEventRecord");
}

void NcclComm::collective(std::int32_t rank, const Instance& at, const CollectiveCall& call) {
  ZPLAN_ASSERT(rank == rank_);
  const Node& n = node(at);
  if (job_.mesh.size(n.group) > 1) {
    const ncclComm_t comm = find(use_of(n));
    return queued(queue_collective(call, comm, queues_.stream(n.lane)), comm, at);
  }
  if (call.input != call.output)
    queues_.copy_bytes(n.lane, call.output, call.input, size_of(call.dtype) * call.elements);
}

void NcclComm::send(std::int32_t rank, const Instance& at, const std::byte* from, Bytes bytes) {
  ZPLAN_ASSERT(rank == rank_);
  const Node& n = node(at);
  const ncclComm_t comm = find(use_of(n));
  queued(ncclSend(from, static_cast<std::size_t>(bytes.value), ncclInt8, 1, comm,
                  queues_.stream(n.lane)),
         comm, at);
}

void NcclComm::receive(std::int32_t rank, const Instance& at, std::byte* to, Bytes bytes) {
  ZPLAN_ASSERT(rank == rank_);
  const Node& n = node(at);
  const ncclComm_t comm = find(use_of(n));
  queued(ncclRecv(to, static_cast<std::size_t>(bytes.value), ncclInt8, 0, comm,
                  queues_.stream(n.lane)),
         comm, at);
}

void NcclComm::check() {
  for (const auto& communicator : communicators_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator->comm, &state);
    const ncclResult_t worst = asked == ncclSuccess ? state : asked;
    if (worst != ncclSuccess && worst != ncclInProgress)
      fail(worst, communicator->comm, describe(communicator->use));
  }
  for (int lane = 0; lane < kLaneCount; ++lane) check_deadline(static_cast<Lane>(lane));
}

// Nobody says when a graph is launched again: what is queued by the time of a check is watched as a
// whole, then what is queued by the next.
void NcclComm::check_deadline(Lane lane) {
  LaneWatch& watched = watches_[static_cast<std::size_t>(lane)];
  if (!watched.operations) return;
  const auto reached = [&](std::size_t event) { return is_reached(watched.events[event].get()); };
  if (const auto overdue = watched.operations->check(reached, std::chrono::steady_clock::now())) {
    throw Error(ExitCode::kDevice,
                "rank " + std::to_string(rank_) + ": " + words(watched, overdue->op) +
                    " is not done after " + seconds_text(overdue->waited) +
                    ": another rank is lost, or behind for longer than the deadline");
  }
  if (watched.captured && watched.operations->empty() && !is_capturing(queues_.stream(lane)))
    watch(lane, *watched.captured);
}

std::string NcclComm::words(const LaneWatch& watch, OpId op) const {
  return (op == watch.captured ? "the graph with " : "") + op_name(op);
}

// Of the lane that has stood for longest.
std::string NcclComm::under_way() {
  std::string text;
  OperationWatch::Duration longest{};
  for (LaneWatch& watched : watches_) {
    if (!watched.operations) continue;
    const auto reached = [&](std::size_t event) { return is_reached(watched.events[event].get()); };
    const auto oldest = watched.operations->oldest(reached, std::chrono::steady_clock::now());
    if (!oldest || oldest->waited < longest) continue;
    longest = oldest->waited;
    text = words(watched, oldest->op);
  }
  return text;
}

// Each on a thread of its own: it returns only when the graphs with the communicator's operations
// are gone.
void NcclComm::abort() noexcept {
  for (const auto& communicator : communicators_) {
    const ncclComm_t comm = std::exchange(communicator->comm, nullptr);
    try {
      if (comm != nullptr) aborting_.emplace_back([comm] { ncclCommAbort(comm); });
    } catch (const std::exception&) {
      ncclCommAbort(comm);  // no thread to be had
    }
  }
}

}  // namespace zplan::exec::cuda
