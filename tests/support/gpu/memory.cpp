// Memory of the stand-in GPU. Nothing is given back to the system before its end, so that a use
// after the end of an allocation is known for what it is; what is freed or new holds NaNs.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/support/gpu/machine.h"
#include "tests/support/memory_policy.h"

namespace zplan::stand_in {
namespace {

constexpr std::size_t kAlignment = 4096;  // of pinned memory, which drives read into
constexpr int kPoison = 0xff;             // NaN in every floating-point type

std::string place_of(const Allocation& allocation) {
  return allocation.device < 0 ? "pinned memory"
                               : fmt::format("memory of device {}", allocation.device);
}

void* allocate(Machine& m, std::size_t size, int device, const char* function) {
  if (m.forbids_allocations) m.find(fmt::format("{}: {} bytes within a step", function, size));
  if (m.current_device().captures > 0)
    m.find(fmt::format("{}: {} bytes while a stream is captured", function, size));
  auto storage = std::make_unique<std::byte[]>(size + 2 * kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(storage.get());
  std::byte* begin = storage.get() + (kAlignment - address % kAlignment);
  std::memset(begin, kPoison, size);
  m.allocations[begin] = {std::move(storage), begin, size, device, true, 0, {}};
  return begin;
}

// The device is idle afterwards, as CUDA promises.
cudaError_t release(Machine& m, Lock& lock, void* memory, bool is_device, const char* function) {
  if (memory == nullptr) return cudaSuccess;
  Allocation* found = m.allocation_of(memory);
  if (found == nullptr || found->begin != memory || (found->device >= 0) != is_device) {
    m.find(fmt::format("{}: no allocation of its kind begins there", function));
    return cudaErrorInvalidValue;
  }
  if (!found->is_live) {
    m.find(
        fmt::format("{}: {} bytes of {} a second time", function, found->size, place_of(*found)));
    return cudaErrorInvalidValue;
  }
  if (m.forbids_allocations) m.find(fmt::format("{}: within a step", function));
  Device& device = m.current_device();
  if (found->unfinished > 0 && device.failed == cudaSuccess)
    m.find(fmt::format("{}: {} tasks have yet to use these {} bytes of {}", function,
                       found->unfinished, found->size, place_of(*found)));
  if (device.failed == cudaSuccess) m.await_device(lock, device, std::string(function));
  found->is_live = false;
  if (is_device) m.devices[static_cast<std::size_t>(found->device)].used -= found->size;
  if (found->unfinished == 0) std::memset(found->begin, kPoison, found->size);
  return device.failed;
}

}  // namespace

std::string range_text(const Access& access) { return fmt::format("{} bytes", access.bytes); }

Allocation* Machine::allocation_of(const void* address) {
  auto after = allocations.upper_bound(static_cast<const std::byte*>(address));
  if (after == allocations.begin()) return nullptr;
  Allocation& found = std::prev(after)->second;
  const auto* byte = static_cast<const std::byte*>(address);
  return byte <= found.begin + found.size ? &found : nullptr;
}

bool Machine::check_range(const Access& access, const std::string& what, bool may_be_pageable) {
  const Allocation* found = allocation_of(access.begin);
  if (found == nullptr) {
    if (may_be_pageable) return true;
    find(fmt::format("{}: {} of memory that is neither the device's nor pinned", what,
                     range_text(access)));
    return false;
  }
  if (!found->is_live) {
    find(fmt::format("{}: use of {} of {} after its end", what, range_text(access),
                     place_of(*found)));
    return false;
  }
  if (access.end() <= found->begin + found->size) return true;
  find(fmt::format("{}: {} beyond the end of an allocation of {} bytes of {}", what,
                   access.end() - (found->begin + found->size), found->size, place_of(*found)));
  return false;
}

void Machine::note(const Access& access, const Agent& agent, const std::string& what) {
  if (access.bytes == 0) return;
  Allocation* found = allocation_of(access.begin);
  if (!check_range(access, what) || has_failed) return;
  if (const auto other = found->journal.add(access, agent.number, agent.clock, what))
    find(fmt::format("race: {} {} {} while nothing orders it after {}", what,
                     access.writes ? "writes" : "reads", range_text(access), *other));
}

}  // namespace zplan::stand_in

using namespace zplan::stand_in;

cudaError_t cudaMalloc(void** memory, std::size_t size) {
  return call("cudaMalloc", [&](Machine& m, Lock&) {
    Device& device = m.current_device();
    if (device.used + size > m.options.memory) return cudaErrorMemoryAllocation;
    device.used += size;
    *memory = allocate(m, size, device.index, "cudaMalloc");
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* memory) {
  return call(
      "cudaFree",
      [&](Machine& m, Lock& lock) { return release(m, lock, memory, true, "cudaFree"); }, true);
}

cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned) {
  return call("cudaHostAlloc", [&](Machine& m, Lock&) {
    m.pinned_node = zplan::testing_support::preferred_node();
    *memory = allocate(m, size, -1, "cudaHostAlloc");
    std::memset(*memory, 0, size);  // other threads may not poll NaNs
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return call(
      "cudaFreeHost",
      [&](Machine& m, Lock& lock) { return release(m, lock, memory, false, "cudaFreeHost"); },
      true);
}

cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  return call("cudaMemGetInfo", [&](Machine& m, Lock&) {
    *total = m.options.memory;
    *available = m.options.memory - m.current_device().used;
    return cudaSuccess;
  });
}

namespace {

Work copy_work(const char* what, void* to, const void* from, std::size_t bytes) {
  return {what, {read_of(from, bytes), write_of(to, bytes)}, [=](Machine&, Device&, Agent&) {
            std::memmove(to, from, bytes);
          }};
}

// Pageable memory is read or written while the call waits.
void drop_pageable(Machine& m, Work& work) {
  std::erase_if(work.accesses,
                [&](const Access& access) { return m.allocation_of(access.begin) == nullptr; });
}

// From pageable memory to a device: the call returns when all is read, the device may come later
// (CUDA runtime API, API synchronization behavior).
cudaError_t copy_staged(Machine& m, Stream& stream, void* to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  const auto staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  return m.submit(stream, {"cudaMemcpy", {write_of(to, bytes)}, [=](Machine&, Device&, Agent&) {
                             std::memcpy(to, staged->data(), bytes);
                           }});
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return call("cudaMemcpy", [&](Machine& m, Lock& lock) {
    Stream& stream = *m.stream_of(nullptr, "cudaMemcpy");
    const Allocation* const target = m.allocation_of(to);
    if (m.allocation_of(from) == nullptr && target != nullptr && target->device >= 0)
      return copy_staged(m, stream, to, from, bytes);
    Work work = copy_work("cudaMemcpy", to, from, bytes);
    drop_pageable(m, work);
    const cudaError_t queued = m.submit(stream, std::move(work));
    if (queued != cudaSuccess) return queued;
    m.await(lock, stream.last, "the host waits for cudaMemcpy");
    return stream.device->failed;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t handle) {
  return call("cudaMemcpyAsync", [&](Machine& m, Lock&) {
    Stream* stream = m.stream_of(handle, "cudaMemcpyAsync");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return m.submit(*stream, copy_work("cudaMemcpyAsync", to, from, bytes));
  });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return call("cudaMemset", [&](Machine& m, Lock&) {
    Stream& stream = *m.stream_of(nullptr, "cudaMemset");
    return m.submit(stream,
                    {"cudaMemset", {write_of(memory, bytes)}, [=](Machine&, Device&, Agent&) {
                       std::memset(memory, value, bytes);
                     }});
  });
}
