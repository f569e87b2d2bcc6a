#include "exec/cuda/cuda_queues.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "exec/cuda/first_work.h"
#include "exec/cuda/kernels/share.h"
#include "planner/core/error.h"

namespace zplan::exec::cuda {
namespace {

// Communication and copies go first where both could start: compute waits for them sooner or later.
StreamHandle make_stream(Lane lane) {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  const int priority = lane == Lane::kCompute ? lowest : highest;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
        "cudaStreamCreateWithPriority");
  return StreamHandle(stream);
}

}  // namespace

std::vector<Lane> launched_lanes(const Program& program) {
  std::array<bool, kLaneCount> used{};
  for (const Node& node : program.nodes) used[static_cast<std::size_t>(node.lane)] = true;
  std::vector<Lane> lanes;
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    if (used[static_cast<std::size_t>(i)] && is_launched(lane)) lanes.push_back(lane);
  }
  return lanes;
}

CudaQueues::CudaQueues(int device, std::shared_ptr<StreamBudget> budget,
                       std::span<const Lane> lanes)
    : device_(device), budget_(std::move(budget)), driver_(find_driver_api()) {
  use_device();
  budget_->take(static_cast<int>(lanes.size()));
  streams_ = static_cast<int>(lanes.size());
  try {
    const FirstWork first(driver_);
    for (Lane lane : lanes) {
      lanes_[static_cast<std::size_t>(lane)] = {make_stream(lane), make_cuda_event(false)};
      first.give(stream(lane));
    }
    clock_ = std::make_unique<EventClock>(lanes.empty() ? nullptr : stream(lanes.front()));
  } catch (...) {
    budget_->give_back(streams_);
    throw;
  }
}

// Idle after a run; what preparations queued may still be under way.
CudaQueues::~CudaQueues() {
  cudaSetDevice(device_);
  cudaDeviceSynchronize();
  budget_->give_back(streams_);
}

void CudaQueues::use_device() const { check(cudaSetDevice(device_), "cudaSetDevice"); }

cudaStream_t CudaQueues::stream(Lane lane) const {
  const StreamHandle& stream = lanes_[static_cast<std::size_t>(lane)].stream;
  ZPLAN_ASSERT(stream != nullptr);
  return stream.get();
}

EventId CudaQueues::make_event(bool timing) {
  use_device();
  events_.push_back({make_cuda_event(timing), timing});
  return static_cast<EventId>(events_.size() - 1);
}

// With unified addressing (CudaDevice asks for it) the device reaches pinned memory at the host's
// address, so a flag of another rank's queues needs no translation.
std::span<Flag> CudaQueues::make_flags(std::size_t count) {
  if (count == 0) return {};
  use_device();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, count * sizeof(Flag), cudaHostAllocPortable | cudaHostAllocMapped),
        "cudaHostAlloc");
  PinnedMemory owner(memory);
  auto* const flags = static_cast<Flag*>(memory);
  std::uninitialized_value_construct_n(flags, count);
  return flags_.emplace_back(Flags{std::move(owner), {flags, count}}).all;
}

void CudaQueues::record(Lane lane, EventId id) {
  Event& event = events_[id];
  if (event.timing) event.base = clock_->base(lane, stream(lane));
  check(cudaEventRecord(event.handle.get(), stream(lane)), "cudaEventRecord");
}

void CudaQueues::wait_event(Lane lane, EventId id) {
  check(cudaStreamWaitEvent(stream(lane), events_[id].handle.get(), 0), "cudaStreamWaitEvent");
}

// The write comes after everything before it in the stream is visible to the whole system: that is
// the operation's default.
void CudaQueues::write_flag(Lane lane, Flag& flag, std::uint64_t value) {
  check_driver(driver_.write_value(stream(lane), driver_address(&flag), value,
                                   CU_STREAM_WRITE_VALUE_DEFAULT),
               "cuStreamWriteValue64");
}

void CudaQueues::wait_flag(Lane lane, Flag& flag, std::uint64_t at_least) {
  check_driver(
      driver_.wait_value(stream(lane), driver_address(&flag), at_least, CU_STREAM_WAIT_VALUE_GEQ),
      "cuStreamWaitValue64");
}

bool CudaQueues::reached(EventId id) { return is_reached(events_[id].handle.get()); }

TimePoint CudaQueues::time_of(EventId id) {
  const Event& event = events_[id];
  ZPLAN_ASSERT(event.timing);
  return clock_->time_of(event.handle.get(), event.base);
}

void CudaQueues::finish() {
  use_device();
  for (const LaneQueue& lane : lanes_) {
    if (lane.stream != nullptr)
      check(cudaStreamSynchronize(lane.stream.get()), "cudaStreamSynchronize");
  }
}

void CudaQueues::run_share(Lane lane, std::span<const CollectiveCall> members, int index) {
  launch_share(stream(lane), members, index);
}

void CudaQueues::copy_bytes(Lane lane, std::byte* to, const std::byte* from, Bytes bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes.value), cudaMemcpyDefault,
                        stream(lane)),
        "cudaMemcpyAsync");
}

void CudaQueues::fork(std::span<const Lane> lanes) {
  const Lane first = lanes.front();
  check(cudaEventRecord(joint(first), stream(first)), "cudaEventRecord");
  for (Lane lane : lanes.subspan(1))
    check(cudaStreamWaitEvent(stream(lane), joint(first), 0), "cudaStreamWaitEvent");
}

void CudaQueues::join(std::span<const Lane> lanes) {
  for (Lane lane : lanes.subspan(1)) {
    check(cudaEventRecord(joint(lane), stream(lane)), "cudaEventRecord");
    check(cudaStreamWaitEvent(stream(lanes.front()), joint(lane), 0), "cudaStreamWaitEvent");
  }
}

// Relaxed: in the other modes a query of an event, as the watch over communication makes in between
// and other ranks' threads make at any time, would spoil the capture.
void CudaQueues::begin_capture(std::span<const Lane> lanes) {
  ZPLAN_ASSERT(capturing_.empty() && !lanes.empty());
  capturing_.assign(lanes.begin(), lanes.end());
  check(cudaStreamBeginCapture(stream(lanes.front()), cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  fork(lanes);
}

GraphId CudaQueues::end_capture() {
  ZPLAN_ASSERT(!capturing_.empty());
  const cudaStream_t first = stream(capturing_.front());
  join(capturing_);
  Graph graph;
  graph.lanes = std::exchange(capturing_, {});
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(first, &captured), "cudaStreamEndCapture");
  const GraphHandle owner(captured);
  cudaGraphExec_t executable = nullptr;
  // Without the flag all nodes would run at the lowest priority among their streams.
  check(cudaGraphInstantiate(&executable, captured, cudaGraphInstantiateFlagUseNodePriority),
        "cudaGraphInstantiate");
  graph.executable.reset(executable);
  check(cudaGraphUpload(executable, first), "cudaGraphUpload");
  graphs_.push_back(std::move(graph));
  return static_cast<GraphId>(graphs_.size() - 1);
}

void CudaQueues::launch(GraphId id) {
  const Graph& graph = graphs_[id];
  join(graph.lanes);
  check(cudaGraphLaunch(graph.executable.get(), stream(graph.lanes.front())), "cudaGraphLaunch");
  fork(graph.lanes);
}

// Work on a stream cannot be taken back. A capture, also one that a failed call made invalid, is
// ended; there is nothing to end when end_capture() failed after that.
void CudaQueues::abandon() noexcept {
  if (capturing_.empty()) return;
  const Lane first = std::exchange(capturing_, {}).front();
  cudaGraph_t captured = nullptr;
  cudaStreamEndCapture(lanes_[static_cast<std::size_t>(first)].stream.get(), &captured);
  cudaGetLastError();  // that it was invalid is known
  if (captured != nullptr) cudaGraphDestroy(captured);
}

void CudaQueues::open_flags() noexcept {
  for (const Flags& flags : flags_)
    for (Flag& flag : flags.all) flag.value.store(kOpenFlag, std::memory_order_release);
}

// An error that a stream reports is one of the whole context, on which nothing runs any more.
bool CudaQueues::is_idle() noexcept {
  cudaSetDevice(device_);
  const bool is_idle = std::none_of(lanes_.begin(), lanes_.end(), [](const LaneQueue& lane) {
    return lane.stream != nullptr && cudaStreamQuery(lane.stream.get()) == cudaErrorNotReady;
  });
  cudaGetLastError();  // "not ready" is remembered like a failure
  return is_idle;
}

}  // namespace zplan::exec::cuda
