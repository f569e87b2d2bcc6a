// Streams, events and flags of the stand-in GPU.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "tests/support/gpu/machine.h"

namespace zplan::stand_in {
namespace {

Event* event_of(Machine& m, cudaEvent_t handle, const std::string& user) {
  const auto found = std::find_if(m.events.begin(), m.events.end(), [&](const Event& e) {
    return &e == reinterpret_cast<Event*>(handle);
  });
  if (found == m.events.end() || !found->is_live) {
    m.find(user + ": an event that does not exist, or not any more");
    return nullptr;
  }
  return &*found;
}

// Of an event that was recorded in a capture there is nothing to ask.
bool is_of_capture(Machine& m, const Event& event, const std::string& user) {
  if (event.graph == nullptr) return false;
  m.find(user + ": an event that was recorded in a capture, used outside of it");
  return true;
}

cudaError_t wait_in_capture(Machine& m, Stream& stream, const Event& event) {
  if (event.graph == nullptr) {
    m.find(fmt::format("cudaStreamWaitEvent: {} is captured, the event was recorded outside",
                       stream.agent.name));
    stream.capture->graph->is_invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (event.graph->is_ended || (stream.capture && stream.capture->graph != event.graph)) {
    m.find("cudaStreamWaitEvent: an event that was recorded in a capture, used outside of it");
    return cudaErrorCapturedEvent;
  }
  if (!stream.capture) {
    stream.capture = Capture{event.graph, event.graph->priorities.size(), {}};
    event.graph->priorities.push_back(stream.priority);
  }
  stream.capture->last.insert(event.nodes.begin(), event.nodes.end());
  return cudaSuccess;
}

// Asked of a stream that is captured, these spoil the capture.
bool spoils(Machine& m, Stream& stream, const std::string& user) {
  if (!stream.capture) return false;
  m.find(fmt::format("{}: {} is captured", user, stream.agent.name));
  stream.capture->graph->is_invalid = true;
  return true;
}

}  // namespace
}  // namespace zplan::stand_in

using namespace zplan::stand_in;

// ---- streams -----------------------------------------------------------------------------------

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&](Machine&, Lock&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call("cudaStreamCreateWithPriority", [&](Machine& m, Lock&) {
    if ((flags & cudaStreamNonBlocking) == 0)
      m.find("cudaStreamCreateWithPriority: a stream that waits for the stream 0");
    *stream = reinterpret_cast<cudaStream_t>(&m.make_stream(m.current_device(), priority));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call(
      "cudaStreamDestroy",
      [&](Machine& m, Lock&) {
        Stream* stream = m.stream_of(handle, "cudaStreamDestroy");
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        if (stream->unfinished > 0 && stream->device->failed == cudaSuccess)
          m.find(fmt::format("cudaStreamDestroy: {} has {} tasks to do", stream->agent.name,
                             stream->unfinished));
        stream->is_live = false;
        return stream->device->failed;
      },
      true);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", [&](Machine& m, Lock& lock) {
    Stream* stream = m.stream_of(handle, "cudaStreamSynchronize");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (spoils(m, *stream, "cudaStreamSynchronize")) return cudaErrorStreamCaptureUnsupported;
    m.await(lock, stream->last, "the host waits for " + stream->agent.name);
    return stream->device->failed;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(handle, "cudaStreamQuery");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (spoils(m, *stream, "cudaStreamQuery")) return cudaErrorStreamCaptureUnsupported;
    if (stream->unfinished > 0) return cudaErrorNotReady;
    if (stream->last != nullptr) join(m.host, stream->last->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&](Machine& m, Lock& lock) {
    Device& device = m.current_device();
    m.await_device(lock, device, "the host waits for the device");
    return device.failed;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return call("cudaStreamWaitEvent", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(handle, "cudaStreamWaitEvent");
    Event* event = event_of(m, event_handle, "cudaStreamWaitEvent");
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture || event->graph != nullptr) return wait_in_capture(m, *stream, *event);
    if (event->last == nullptr) {
      m.find(fmt::format("cudaStreamWaitEvent: {} waits for an event that nobody recorded",
                         stream->agent.name));
      return cudaSuccess;
    }
    return m.submit(*stream, {"cudaStreamWaitEvent"}, {event->last});
  });
}

// ---- events ------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](Machine& m, Lock&) {
    Event& made = m.events.emplace_back();
    made.device = &m.current_device();
    made.has_timing = (flags & cudaEventDisableTiming) == 0;
    *event = reinterpret_cast<cudaEvent_t>(&made);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call(
      "cudaEventDestroy",
      [&](Machine& m, Lock&) {
        Event* event = event_of(m, handle, "cudaEventDestroy");
        if (event == nullptr) return cudaErrorInvalidResourceHandle;
        event->is_live = false;
        return cudaSuccess;
      },
      true);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return call("cudaEventRecord", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(stream_handle, "cudaEventRecord");
    Event* event = event_of(m, handle, "cudaEventRecord");
    if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->device != event->device) {
      m.find("cudaEventRecord: an event of another device than the stream's");
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture) {
      if (event->has_timing) m.find("cudaEventRecord: an event with timing within a capture");
      event->graph = stream->capture->graph;
      event->nodes = stream->capture->last;
      event->last = nullptr;
      return cudaSuccess;
    }
    event->graph = nullptr;
    event->last = std::make_shared<Moment>();
    return m.submit(*stream, {"cudaEventRecord"}, {}, event->last);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call("cudaEventQuery", [&](Machine& m, Lock&) {
    const Event* event = event_of(m, handle, "cudaEventQuery");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (is_of_capture(m, *event, "cudaEventQuery")) return cudaErrorCapturedEvent;
    if (event->last == nullptr) return cudaSuccess;
    if (!event->last->reached) return cudaErrorNotReady;
    join(m.host, event->last->clock);
    return event->device->failed;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call("cudaEventSynchronize", [&](Machine& m, Lock& lock) {
    const Event* event = event_of(m, handle, "cudaEventSynchronize");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (is_of_capture(m, *event, "cudaEventSynchronize")) return cudaErrorCapturedEvent;
    m.await(lock, event->last, "the host waits for an event");
    return event->device->failed;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call("cudaEventElapsedTime", [&](Machine& m, Lock&) {
    const Event *first = event_of(m, from, "cudaEventElapsedTime"),
                *second = event_of(m, to, "cudaEventElapsedTime");
    if (first == nullptr || second == nullptr) return cudaErrorInvalidResourceHandle;
    const bool has_times = first->has_timing && second->has_timing && first->last && second->last;
    if (!has_times) {
      m.find("cudaEventElapsedTime: an event without timing, or that nobody recorded");
      return cudaErrorInvalidResourceHandle;
    }
    if (!first->last->reached || !second->last->reached) return cudaErrorNotReady;
    *milliseconds =
        std::chrono::duration<float, std::milli>(second->last->time - first->last->time).count();
    return cudaSuccess;
  });
}

// ---- flags -------------------------------------------------------------------------------------

namespace zplan::stand_in {
namespace {

using FlagWord = std::atomic<std::uint64_t>;

bool may_use_flag(Machine& m, const Stream* stream, CUdeviceptr address, const char* function) {
  if (stream == nullptr) return false;
  const Access word = read_of(reinterpret_cast<const void*>(address), sizeof(FlagWord));
  if (!m.check_range(word, function)) return false;
  if (address % sizeof(FlagWord) != 0) {
    m.find(fmt::format("{}: a word that is not on {} bytes", function, sizeof(FlagWord)));
    return false;
  }
  if (!stream->capture) return true;
  m.find(fmt::format("{}: {} is captured", function, stream->agent.name));
  return false;
}

// The first write that opens the wait comes before it; where no stream made one, the host did,
// which knows what any flag has told by now, and what it has done.
void order_after_flag(Machine& m, Agent& agent, const void* address, std::uint64_t at_least) {
  for (const auto& write : m.flag_writes[address])
    if (static_cast<std::int64_t>(write.value - at_least) >= 0)
      return join(agent.clock, write.clock);
  join(agent.clock, m.flags);
  join(agent.clock, m.host);
  join(agent.clock, m.host_work);
}

CUresult write_value(CUstream handle, CUdeviceptr address, cuuint64_t value, unsigned) {
  return static_cast<CUresult>(call("cuStreamWriteValue64", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(handle, "cuStreamWriteValue64");
    if (!may_use_flag(m, stream, address, "cuStreamWriteValue64")) return cudaErrorInvalidValue;
    return m.submit(*stream, {"cuStreamWriteValue64", {}, [=](Machine& at, Device&, Agent& agent) {
                                const Lock lock(at.mutex);
                                auto* word = reinterpret_cast<FlagWord*>(address);
                                constexpr std::size_t kKept = 64;
                                auto& writes = at.flag_writes[word];
                                writes.push_back({value, agent.clock});
                                if (writes.size() > kKept) writes.pop_front();
                                join(at.flags, agent.clock);
                                word->store(value, std::memory_order_release);
                              }});
  }));
}

CUresult wait_value(CUstream handle, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return static_cast<CUresult>(call("cuStreamWaitValue64", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(handle, "cuStreamWaitValue64");
    if (!may_use_flag(m, stream, address, "cuStreamWaitValue64")) return cudaErrorInvalidValue;
    if (flags != CU_STREAM_WAIT_VALUE_GEQ) m.find("cuStreamWaitValue64: not a wait for at least");
    return m.submit(
        *stream,
        {"cuStreamWaitValue64", {}, [=](Machine& at, Device&, Agent& agent) {
           auto* word = reinterpret_cast<FlagWord*>(address);
           const auto holds = [&] {
             return static_cast<std::int64_t>(word->load(std::memory_order_acquire) - value) >= 0;
           };
           for (int i = 0; i < 50 && !holds(); ++i)
             std::this_thread::sleep_for(std::chrono::microseconds(20));
           Lock lock(at.mutex);
           std::condition_variable changed;
           at.wait(lock, changed, holds, agent.name + " waits for a flag", true);
           order_after_flag(at, agent, word, value);
         }});
  }));
}

CUresult fill_halves(CUdeviceptr address, unsigned short value, std::size_t count) {
  return static_cast<CUresult>(call("cuMemsetD16", [&](Machine& m, Lock&) {
    auto* memory = reinterpret_cast<unsigned short*>(address);
    Stream& stream = *m.stream_of(nullptr, "cuMemsetD16");
    return m.submit(stream,
                    {"cuMemsetD16",
                     {write_of(memory, count * sizeof *memory)},
                     [=](Machine&, Device&, Agent&) { std::fill_n(memory, count, value); }});
  }));
}

CUresult device_attribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return static_cast<CUresult>(call("cuDeviceGetAttribute", [&](Machine& m, Lock&) {
    if (device < 0 || device >= m.options.devices) return cudaErrorInvalidDevice;
    *value = attribute == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING ||
             attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;
    return cudaSuccess;
  }));
}

}  // namespace
}  // namespace zplan::stand_in

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  return call("cudaGetDriverEntryPointByVersion", [&](Machine& m, Lock&) {
    const std::map<std::string, void*> known = {
        {"cuDeviceGetAttribute", reinterpret_cast<void*>(&device_attribute)},
        {"cuMemsetD16", reinterpret_cast<void*>(&fill_halves)},
        {"cuStreamWriteValue64", reinterpret_cast<void*>(&write_value)},
        {"cuStreamWaitValue64", reinterpret_cast<void*>(&wait_value)}};
    const auto& missing = m.options.missing_symbols;
    const auto found = known.find(symbol);
    const bool has =
        found != known.end() && std::find(missing.begin(), missing.end(), symbol) == missing.end();
    *function = has ? found->second : nullptr;
    *status = has ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
  });
}

// Of toolkits before 12.5.
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, status);
}
