#include "tests/support/gpu/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "planner/core/random.h"
#include "tests/support/gpu/nccl_marks.h"

namespace zplan::stand_in {
namespace {

Machine* the_machine = nullptr;
constexpr std::chrono::milliseconds kLook{20};  // at whether anything moves
constexpr int kHostPatience = 20;               // times that of devices: the host may compute

int hardware_queues(const Options& options) {
  if (options.hardware_queues > 0) return options.hardware_queues;
  const char* connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections == nullptr ? 8 : std::clamp(std::atoi(connections), 1, 32);
}

}  // namespace

Machine::Machine(const Options& o) : options(o) {
  if (the_machine != nullptr) std::abort();
  the_machine = this;
  const Lock lock(mutex);
  for (int i = 0; i < options.devices; ++i) {
    Device& device = devices.emplace_back();
    device.index = i;
  }
}

Machine::~Machine() {
  stop();
  for (Device& device : devices) device.queues.clear();  // they use streams and their branches
  streams.clear();
  end_links(*this);
  the_machine = nullptr;
}

void Machine::stop() {
  const Lock lock(mutex);
  is_stopping = true;
}

Machine& Machine::the() {
  if (the_machine == nullptr) {
    std::fputs("a function of CUDA is called while there is no stand-in GPU\n", stderr);
    std::abort();
  }
  return *the_machine;
}

void Machine::find(std::string finding) { findings.push_back(std::move(finding)); }

Device& Machine::current_device() { return devices[static_cast<std::size_t>(thread_device())]; }

Agent Machine::make_agent(std::string name) {
  const std::size_t own = agents++;
  return {own * options.processes + options.process, std::move(name), {}};
}

// Streams take turns in the hardware queues.
Stream& Machine::make_stream(Device& device, int priority) {
  const auto queues = static_cast<std::size_t>(hardware_queues(options));
  const auto turn = static_cast<std::size_t>(device.streams) % queues;
  while (device.queues.size() <= turn) device.queues.push_back(std::make_unique<Worker>(*this));
  Stream& stream = streams.emplace_back();
  stream.device = &device;
  stream.agent = make_agent(fmt::format("stream {} of device {}", device.streams++, device.index));
  stream.worker = device.queues[turn].get();
  stream.priority = priority;
  return stream;
}

// The stream 0 has a queue of its own.
Stream* Machine::stream_of(cudaStream_t handle, const std::string& user) {
  if (handle == nullptr) {
    Device& device = current_device();
    if (device.null_stream == nullptr) {
      Stream& stream = streams.emplace_back();
      stream.device = &device;
      stream.agent = make_agent(fmt::format("stream 0 of device {}", device.index));
      device.queues.push_back(std::make_unique<Worker>(*this));
      stream.worker = device.queues.back().get();
      device.null_stream = &stream;
    }
    return device.null_stream;
  }
  const auto found = std::find_if(streams.begin(), streams.end(), [&](const Stream& s) {
    return &s == reinterpret_cast<Stream*>(handle);
  });
  if (found == streams.end()) {
    find(user + ": that is no stream");
    return nullptr;
  }
  if (!found->is_live) {
    find(fmt::format("{}: {} was destroyed", user, found->agent.name));
    return nullptr;
  }
  return &*found;
}

void Machine::check_first_use(Stream& stream) {
  if (stream.is_used) return;
  stream.is_used = true;
  Device& device = *stream.device;
  if (!device.first_user) device.first_user = std::this_thread::get_id();
  if (*device.first_user != std::this_thread::get_id())
    find(stream.agent.name + " is first used by another thread than the streams before it");
}

cudaError_t Machine::submit(Stream& stream, Work work, std::vector<MomentPtr> after,
                            MomentPtr done) {
  for (const Access& access : work.accesses)
    if (!check_range(access, work.what)) return cudaErrorInvalidValue;
  if (stream.capture) {
    Graph& graph = *stream.capture->graph;
    if (graph.is_invalid) return cudaErrorStreamCaptureInvalidated;
    const std::set<std::size_t>& last = stream.capture->last;
    graph.nodes.push_back({std::move(work), stream.capture->branch, {last.begin(), last.end()}});
    stream.capture->last = {graph.nodes.size() - 1};
    return cudaSuccess;
  }
  check_first_use(stream);
  if (done == nullptr) done = std::make_shared<Moment>();
  for (const Access& access : work.accesses) ++allocation_of(access.begin)->unfinished;
  stream.last = done;
  ++stream.unfinished;
  ++unfinished;
  stream.worker->push({std::move(work), &stream.agent, stream.device, std::move(after),
                       std::move(done), host, &stream.unfinished});
  return cudaSuccess;
}

// Nothing moves while all that are at work wait; one that waits for a flag may wait for the host.
// Patience is counted in looks: who is stopped, or gets no turn, loses none.
bool Machine::wait(Lock& lock, std::condition_variable& changed, const std::function<bool()>& holds,
                   const std::string& what, bool is_for_host) {
  const auto self = std::this_thread::get_id();
  const bool computed = computing.erase(self) > 0;
  blocked[self] = {what, is_for_host};
  TimePoint seen = last_progress;
  int looks = 0;
  while (!holds() && !is_stopping && !is_broken) {
    if (changed.wait_for(lock, kLook) == std::cv_status::timeout) ++looks;
    if (!computing.empty() || last_progress != std::exchange(seen, last_progress)) looks = 0;
    const bool any_for_host =
        std::any_of(blocked.begin(), blocked.end(), [](const auto& b) { return b.second.second; });
    const auto patience = options.patience * (any_for_host ? kHostPatience : 1);
    if (looks * kLook < patience || holds()) continue;
    std::string all = "the device stands still:";
    for (const auto& [thread, waits] : blocked) all += " [" + waits.first + "]";
    find(all);
    is_broken = true;
    for (Device& device : devices) fail(device, cudaErrorLaunchTimeout);
  }
  blocked.erase(self);
  if (computed) computing.insert(self);
  return holds();
}

void Machine::await(Lock& lock, const MomentPtr& moment, const std::string& what) {
  if (moment == nullptr) return;
  if (!moment->reached) last_progress = std::chrono::steady_clock::now();
  wait(
      lock, moment->changed, [&] { return moment->reached; }, what);
  join(host, moment->clock);
}

void Machine::await_device(Lock& lock, Device& device, const std::string& what) {
  std::vector<MomentPtr> ends;
  for (const Stream& stream : streams)
    if (stream.device == &device && stream.last != nullptr) ends.push_back(stream.last);
  for (const MomentPtr& end : ends) await(lock, end, what);
}

void Machine::fail(Device& device, cudaError_t error) {
  if (device.failed == cudaSuccess) device.failed = error;
  has_failed = true;
}

void Machine::report_leftovers() {
  for (const auto& [begin, allocation] : allocations)
    if (allocation.is_live)
      find(fmt::format("left over: an allocation of {} bytes", allocation.size));
  const auto count_live = [](const auto& all) {
    return std::count_if(all.begin(), all.end(), [](const auto& x) { return x.is_live; });
  };
  std::int64_t null_streams = 0;
  for (const Device& device : devices) null_streams += device.null_stream != nullptr ? 1 : 0;
  const auto say = [&](std::int64_t count, const char* of_what) {
    if (count > 0) find(fmt::format("left over: {} of {}", count, of_what));
  };
  say(count_live(streams) - null_streams, "streams");
  say(count_live(events), "events");
  say(count_live(graphs), "graphs");
  say(count_live(executables), "executable graphs");
  report_communicators(*this);
}

// ---- hardware queues ---------------------------------------------------------------------------

void Worker::push(Task task) {
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void Worker::run() {
  Lock lock(machine_.mutex);
  while (true) {
    while (tasks_.empty() && !machine_.is_stopping)
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    execute(lock, task);
  }
}

void Worker::execute(Lock& lock, Task& task) {
  Machine& m = machine_;
  Agent& agent = *task.agent;
  for (const MomentPtr& moment : task.after) {
    m.wait(
        lock, moment->changed, [&] { return moment->reached; },
        fmt::format("{}: {} waits for an event", agent.name, task.work.what));
    join(agent.clock, moment->clock);
  }
  join(agent.clock, task.host);
  if (agent.clock.size() <= agent.number) agent.clock.resize(agent.number + 1);
  ++agent.clock[agent.number];
  if (task.device->tasks_to_failure > 0 && --task.device->tasks_to_failure == 0)
    m.fail(*task.device, task.device->failure);
  const bool runs = task.device->failed == cudaSuccess;  // nothing does on a device that failed
  for (const Access& access : task.work.accesses)
    if (runs) m.note(access, agent, task.work.what + " on " + agent.name);
  if (runs && task.work.body && !m.is_stopping) {
    m.computing.insert(std::this_thread::get_id());
    lock.unlock();
    delay();
    task.work.body(m, *task.device, agent);
    lock.lock();
    m.computing.erase(std::this_thread::get_id());
  }
  for (const Access& access : task.work.accesses) --m.allocation_of(access.begin)->unfinished;
  task.done->clock = agent.clock;
  task.done->time = std::chrono::steady_clock::now();
  task.done->reached = true;
  task.done->changed.notify_all();
  --*task.unfinished;
  --m.unfinished;
  ++m.tasks;
  m.last_progress = task.done->time;
}

void Worker::delay() {
  constexpr std::uint64_t kOneIn = 8, kMostMicroseconds = 200;
  if (machine_.options.delay_seed == 0) return;
  const std::uint64_t draw =
      data_draw(machine_.options.delay_seed + reinterpret_cast<std::uintptr_t>(this), draws_++);
  if (draw % kOneIn == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(draw / kOneIn % kMostMicroseconds));
}

// ---- calls -------------------------------------------------------------------------------------

int& thread_device() {
  static thread_local int device = 0;
  return device;
}

cudaError_t& thread_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

std::optional<int> asked_failure(Machine& machine, const std::string& function) {
  const auto found = machine.call_failures.find(function);
  if (found == machine.call_failures.end() || found->second.empty()) return std::nullopt;
  auto& [calls, error] = found->second.front();
  if (--calls > 0) return std::nullopt;
  const int result = error;
  found->second.pop_front();
  machine.has_failed = true;
  return result;
}

cudaError_t call(const char* function, const CallBody& body, bool always) {
  Machine& machine = Machine::the();
  Lock lock(machine.mutex);
  cudaError_t result = cudaSuccess;
  if (const auto error = asked_failure(machine, function)) {
    result = static_cast<cudaError_t>(*error);
  } else if (!always && !machine.devices.empty() &&
             machine.current_device().failed != cudaSuccess) {
    result = machine.current_device().failed;
  } else {
    result = body(machine, lock);
  }
  if (result != cudaSuccess) thread_error() = result;
  return result;
}

// ---- the tests' side ---------------------------------------------------------------------------

StandIn::StandIn(const Options& options) : machine_(std::make_unique<Machine>(options)) {
  thread_device() = 0;
  thread_error() = cudaSuccess;
}
StandIn::~StandIn() = default;

std::vector<std::string> StandIn::findings() const {
  const Lock lock(machine_->mutex);
  return machine_->findings;
}

std::vector<std::string> StandIn::close() {
  const Lock lock(machine_->mutex);
  machine_->report_leftovers();
  return machine_->findings;
}

void StandIn::fail_call(const std::string& function, int error, int n) {
  const Lock lock(machine_->mutex);
  machine_->call_failures[function].emplace_back(n, error);
}

void StandIn::fail_task(int device, int error, int n) {
  const Lock lock(machine_->mutex);
  Device& failing = machine_->devices[static_cast<std::size_t>(device)];
  failing.tasks_to_failure = n;
  failing.failure = static_cast<cudaError_t>(error);
}

void StandIn::fail_communicators(int error) {
  const Lock lock(machine_->mutex);
  machine_->communicator_error = error;
}

void StandIn::forbid_allocations(bool forbid) {
  const Lock lock(machine_->mutex);
  machine_->forbids_allocations = forbid;
}

std::optional<int> StandIn::pinned_node() const {
  const Lock lock(machine_->mutex);
  return machine_->pinned_node;
}

std::int64_t StandIn::tasks() const {
  const Lock lock(machine_->mutex);
  return machine_->tasks;
}
std::int64_t StandIn::launches() const {
  const Lock lock(machine_->mutex);
  return machine_->launches;
}
std::int64_t StandIn::collectives() const {
  const Lock lock(machine_->mutex);
  return machine_->collectives;
}
std::int64_t StandIn::collective_bytes() const {
  const Lock lock(machine_->mutex);
  return machine_->collective_bytes;
}

namespace {
thread_local std::vector<Access> declared;
}  // namespace

DeclaredAccesses::DeclaredAccesses(std::vector<Access> accesses) { declared = std::move(accesses); }
DeclaredAccesses::~DeclaredAccesses() { declared.clear(); }
const std::vector<Access>& declared_accesses() { return declared; }

HostWork::HostWork(const std::string& line, const std::string& what,
                   const std::vector<Access>& accesses)
    : line_(line) {
  Machine& m = Machine::the();
  const Lock lock(m.mutex);
  if (!m.host_lines.contains(line)) m.host_lines[line] = m.make_agent(line);
  Agent& agent = m.host_lines[line];
  for (const Clock* before : {&m.flags, &m.host, &m.host_work}) join(agent.clock, *before);
  if (agent.clock.size() <= agent.number) agent.clock.resize(agent.number + 1);
  ++agent.clock[agent.number];
  for (const Access& access : accesses) m.note(access, agent, what + " on " + line);
}

HostWork::~HostWork() {
  Machine& m = Machine::the();
  const Lock lock(m.mutex);
  join(m.host_work, m.host_lines[line_].clock);
}

}  // namespace zplan::stand_in
