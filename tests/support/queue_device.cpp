#include "tests/support/queue_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "exec/cpu/cpu_device.h"
#include "exec/schedule/pauses.h"
#include "exec/schedule/queues.h"
#include "planner/core/error.h"
#include "planner/core/random.h"

namespace zplan::exec {
namespace {

using Task = std::function<void()>;
using TaskCount = std::atomic<std::int64_t>;

// Of all queues of a device.
struct TaskCounts {
  TaskCount unfinished = 0;
  TaskCount flag_waits = 0;  // of them
};

// Runs tasks one after the other. `unfinished` counts those of all workers of a device.
class Worker {
 public:
  Worker(std::uint64_t delay_seed, TaskCount& unfinished)
      : delay_seed_(delay_seed), unfinished_(unfinished), thread_([this] { run(); }) {}
  ~Worker() {
    push(nullptr);
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void push(Task task) {
    const std::lock_guard lock(mutex_);
    ++unfinished_;
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  void finish() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty(); });
  }
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return tasks_.empty();
  }

 private:
  void run() {
    for (std::uint64_t n = 0;; ++n) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !tasks_.empty(); });
        task = tasks_.front();
      }
      if (task) {
        delay(n);
        task();
      }
      const std::lock_guard lock(mutex_);
      tasks_.pop_front();
      --unfinished_;
      changed_.notify_all();
      if (!task) return;
    }
  }

  void delay(std::uint64_t n) const {
    constexpr std::uint64_t kOneIn = 8, kMostMicroseconds = 200;
    if (delay_seed_ == 0) return;
    const std::uint64_t draw = data_draw(delay_seed_, n);
    if (draw % kOneIn == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(draw / kOneIn % kMostMicroseconds));
  }

  std::uint64_t delay_seed_;
  TaskCount& unfinished_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::thread thread_;
};

struct Event {
  std::int64_t recorded = 0;  // by the launching thread
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t reached = 0;
  TimePoint time;
};

class QueueThreads : public Queues {
 public:
  QueueThreads(const std::function<void()>& prepare, std::uint64_t delay_seed,
               std::function<void()> graph_launched, TaskCounts& counts)
      : graph_launched_(std::move(graph_launched)), counts_(counts) {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      if (!is_launched(static_cast<Lane>(lane))) continue;
      workers_[static_cast<std::size_t>(lane)].emplace(
          delay_seed * kLaneCount + static_cast<std::uint64_t>(lane), counts.unfinished);
      worker(static_cast<Lane>(lane)).push(prepare);
    }
  }

  EventId make_event(bool) override {
    events_.emplace_back();
    return static_cast<EventId>(events_.size() - 1);
  }
  std::span<Flag> make_flags(std::size_t count) override {
    return flags_.emplace_back(std::vector<Flag>(count));
  }

  void record(Lane lane, EventId id) override {
    add([this, lane, id] {
      Event& event = events_[id];
      worker(lane).push([&event, generation = ++event.recorded] {
        const std::lock_guard lock(event.mutex);
        event.reached = generation;
        event.time = std::chrono::steady_clock::now();
        event.changed.notify_all();
      });
    });
  }
  void wait_event(Lane lane, EventId id) override {
    add([this, lane, id] {
      Event& event = events_[id];
      worker(lane).push([&event, generation = event.recorded] {
        std::unique_lock lock(event.mutex);
        event.changed.wait(lock, [&] { return event.reached >= generation; });
      });
    });
  }
  void write_flag(Lane lane, Flag& flag, std::uint64_t value) override {
    ZPLAN_ASSERT(!graph_);
    worker(lane).push([&flag, value] { flag.value.store(value, std::memory_order_release); });
  }
  void wait_flag(Lane lane, Flag& flag, std::uint64_t at_least) override {
    ZPLAN_ASSERT(!graph_);
    ++counts_.flag_waits;
    worker(lane).push([this, &flag, at_least] {
      Pauses pauses(std::chrono::microseconds(10));
      while (flag.value.load(std::memory_order_acquire) < at_least) pauses.sleep();
      --counts_.flag_waits;
    });
  }

  bool reached(EventId id) override {
    if (failed_.load(std::memory_order_acquire))
      throw Error(ExitCode::kDevice, "the device failed");
    Event& event = events_[id];
    const std::lock_guard lock(event.mutex);
    return event.reached >= event.recorded;
  }
  TimePoint time_of(EventId id) override {
    Event& event = events_[id];
    const std::lock_guard lock(event.mutex);
    return event.time;
  }
  void finish() override {
    for (std::optional<Worker>& worker : workers_)
      if (worker) worker->finish();
    if (failed_.load(std::memory_order_acquire))
      throw Error(ExitCode::kDevice, "the device failed");
  }

  void run_share(Lane lane, std::span<const CollectiveCall> members, int index) override {
    add_work(lane, [calls = std::vector(members.begin(), members.end()), index] {
      exec::run_share(calls, index);
    });
  }
  void copy_bytes(Lane lane, std::byte* to, const std::byte* from, Bytes bytes) override {
    add_work(lane,
             [to, from, bytes] { std::memcpy(to, from, static_cast<std::size_t>(bytes.value)); });
  }
  // Work that may throw. Once abandoned it is left out: it would run unordered.
  void add_work(Lane lane, Task work) {
    add([this, lane, work = std::move(work)] {
      worker(lane).push([this, work] {
        if (is_abandoned_.load(std::memory_order_acquire)) return;
        try {
          work();
        } catch (...) {
          failed_.store(true, std::memory_order_release);
        }
      });
    });
  }

  void begin_capture(std::span<const Lane> lanes) override {
    ZPLAN_ASSERT(!graph_);
    graph_ = Graph{{lanes.begin(), lanes.end()}, {}};
  }
  // A real device would be waited for, perhaps for ever.
  GraphId end_capture() override {
    if (counts_.flag_waits > 0)
      throw Error(ExitCode::kDevice, "a graph is made while a queue waits for a flag");
    graphs_.push_back(*std::exchange(graph_, std::nullopt));
    return static_cast<GraphId>(graphs_.size() - 1);
  }
  // Once its capture is spoilt the queues take nothing.
  void spoil_capture() { is_spoilt_ = graph_.has_value(); }
  void launch(GraphId id) override {
    ZPLAN_ASSERT(!graph_);
    if (graph_launched_) graph_launched_();
    const Graph& graph = graphs_[id];
    join(graph.lanes);
    for (const Task& task : graph.tasks) task();
    join(graph.lanes);
  }

  void abandon() noexcept override {
    graph_.reset();
    is_abandoned_.store(true, std::memory_order_release);
  }
  void open_flags() noexcept override {
    for (std::vector<Flag>& flags : flags_)
      for (Flag& flag : flags) flag.value.store(kOpenFlag, std::memory_order_release);
  }
  bool is_idle() noexcept override {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](std::optional<Worker>& worker) { return !worker || worker->is_idle(); });
  }

 private:
  struct Graph {
    std::vector<Lane> lanes;
    std::vector<Task> tasks;  // each queues its work
  };

  Worker& worker(Lane lane) { return *workers_[static_cast<std::size_t>(lane)]; }

  void add(Task task) {
    if (is_spoilt_) throw Error(ExitCode::kDevice, "the capture is spoilt");
    if (graph_) {
      graph_->tasks.push_back(std::move(task));
    } else {
      task();
    }
  }

  // What comes next on any of the lanes waits for what is on all of them.
  void join(const std::vector<Lane>& lanes) {
    std::vector<EventId> ends;
    for (Lane lane : lanes) record(lane, ends.emplace_back(make_event(false)));
    for (Lane lane : lanes)
      for (EventId end : ends) wait_event(lane, end);
  }

  std::function<void()> graph_launched_;
  TaskCounts& counts_;
  std::deque<Event> events_;
  std::deque<std::vector<Flag>> flags_;
  std::optional<Graph> graph_;  // being captured
  bool is_spoilt_ = false;
  std::vector<Graph> graphs_;
  std::atomic<bool> failed_ = false, is_abandoned_ = false;
  std::array<std::optional<Worker>, kLaneCount> workers_;  // last: they use the others
};

class QueueBackend : public Backend {
 public:
  QueueBackend(std::unique_ptr<Backend> kernels, const QueueDeviceOptions& options,
               TaskCounts& counts)
      : kernels_(std::move(kernels)),
        options_(options),
        counts_(counts),
        queues_([this] { kernels_->prepare_thread(); }, options.delay_seed, options.graph_launched,
                counts) {}
  ~QueueBackend() override {
    if (options_.backend_goes) options_.backend_goes(counts_.unfinished);
  }

  void prepare_thread() override { kernels_->prepare_thread(); }

  void run_kernel(const KernelCall& call) override {
    if (!is_launched(call.node->lane)) {
      if (options_.before_kernel) options_.before_kernel(call);
      return kernels_->run_kernel(call);
    }
    announce(call);
    // The operands at hand are gone when the kernel runs.
    std::vector<Operand> operands(call.operands.begin(), call.operands.end());
    queues_.add_work(call.node->lane, [this, call, operands = std::move(operands)] {
      KernelCall later = call;
      later.operands = operands;
      if (options_.before_kernel) options_.before_kernel(later);
      kernels_->run_kernel(later);
    });
  }

  void copy(Lane lane, const Operand& from, const Operand& to) override {
    if (!is_launched(lane)) return kernels_->copy(lane, from, to);
    queues_.copy_bytes(lane, to.data, from.data, from.view->bytes());
  }

  Queues* queues() override { return &queues_; }

 private:
  void announce(const KernelCall& call) {
    if (!options_.before_launch) return;
    try {
      options_.before_launch(call);
    } catch (...) {
      queues_.spoil_capture();
      throw;
    }
  }

  std::unique_ptr<Backend> kernels_;
  QueueDeviceOptions options_;
  TaskCounts& counts_;
  QueueThreads queues_;
};

class QueueDevice : public cpu::CpuDevice {
 public:
  explicit QueueDevice(QueueDeviceOptions options) : options_(std::move(options)) {}

  bool host_reaches(Tier tier) const override { return tier == Tier::kCpu; }
  bool ranks_may_share_graphs() const override { return options_.shares_graphs; }
  std::unique_ptr<Backend> make_backend(const Job& job, std::int32_t rank, int threads,
                                        const KnownChoices& known) override {
    return std::make_unique<QueueBackend>(CpuDevice::make_backend(job, rank, threads, known),
                                          options_, counts_);
  }

 private:
  QueueDeviceOptions options_;
  TaskCounts counts_;
};

}  // namespace

std::shared_ptr<Device> make_queue_device(const QueueDeviceOptions& options) {
  return std::make_shared<QueueDevice>(options);
}

}  // namespace zplan::exec
