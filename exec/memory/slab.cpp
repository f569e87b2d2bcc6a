#include "exec/memory/slab.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "exec/cpu/cpu_device.h"
#include "exec/memory/poison.h"
#include "exec/offload/io_engine.h"
#include "exec/offload/slab_file.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

double gib(Bytes bytes) { return static_cast<double>(bytes.value) / kGib; }

}  // namespace

// "MemAvailable:   12345 kB" of /proc/meminfo, where kB is 1024 bytes.
Bytes available_memory() {
  constexpr std::int64_t kKib = 1024;
  std::ifstream in("/proc/meminfo");
  std::string key, rest;
  std::int64_t number = 0;
  while (in >> key >> number && std::getline(in, rest)) {
    if (key == "MemAvailable:") return Bytes{number * kKib};
  }
  throw Error(ExitCode::kDevice, "/proc/meminfo does not say how much memory is available");
}

Slab::Slab(Bytes size) : size_(round_up(size, Bytes{sysconf(_SC_PAGESIZE)})) {
  if (size_.value == 0) return;
  const auto length = static_cast<std::size_t>(size_.value);
  void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    throw Error(ExitCode::kDevice,
                fmt::format("cannot map a slab of {:.2f} GiB: {}", gib(size_), strerror(errno)));
  }
  madvise(address, length, MADV_HUGEPAGE);  // a hint: fewer page faults; refusal costs only time
  data_ = static_cast<std::byte*>(address);
  release_ = [](std::byte* data, Bytes bytes) noexcept {
    munmap(data, static_cast<std::size_t>(bytes.value));
  };
  poison_slab(data_, size_);
}

Slab::~Slab() {
  if (data_ != nullptr) release_(data_, size_);
}

Slab::Slab(Slab&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, Bytes{0})),
      release_(std::exchange(other.release_, nullptr)),
      accessible_(std::exchange(other.accessible_, true)) {}

Slab& Slab::operator=(Slab&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(release_, other.release_);
  std::swap(accessible_, other.accessible_);
  return *this;
}

void Slab::set_accessible(bool accessible) {
  if (accessible == accessible_ || data_ == nullptr) return;
  protect(data_, size_, accessible);
  accessible_ = accessible;
}

void Slab::set_accessible(Bytes begin, Bytes end, bool accessible) {
  const Bytes page{sysconf(_SC_PAGESIZE)};
  const Bytes first = round_up(begin, page);
  const Bytes last{end.value / page.value * page.value};
  if (first < last && data_ != nullptr) protect(data_ + first.value, last - first, accessible);
}

void Slab::protect(std::byte* begin, Bytes bytes, bool accessible) {
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  ZPLAN_ASSERT(mprotect(begin, static_cast<std::size_t>(bytes.value), protection) == 0);
}

std::optional<std::string> Slab::pin() {
  if (data_ == nullptr || mlock(data_, static_cast<std::size_t>(size_.value)) == 0)
    return std::nullopt;
  return strerror(errno);
}

RankMemory::RankMemory(const Job& job, std::int32_t rank, const StorageOptions& storage,
                       std::shared_ptr<Device> device)
    : class_(&job.class_of(rank)),
      mesh_(&job.mesh),
      at_(job.mesh.point(rank)),
      device_(device ? std::move(device) : std::make_shared<cpu::CpuDevice>()) {
  const auto size = [&](Tier tier) {
    return class_->placement.slab[static_cast<std::size_t>(tier)];
  };
  for (Tier tier : {Tier::kGpu, Tier::kCpu})
    if (size(tier).value > 0) slab(tier) = device_->make_slab(tier, size(tier));
  if (size(Tier::kNvme).value == 0) return;
  file_ = std::make_unique<SlabFile>(storage, rank, size(Tier::kNvme));
  engine_ = make_io_engine(storage);
}

RankMemory::~RankMemory() = default;
RankMemory::RankMemory(RankMemory&&) noexcept = default;
RankMemory& RankMemory::operator=(RankMemory&&) noexcept = default;

Bytes RankMemory::slot_offset(BufferId id, std::int64_t slot) const {
  return class_->placement.offset[id] + class_->program.buffers[id].slot_size * slot;
}

Bytes RankMemory::offset(const View& view, const Env& env) const {
  const std::int64_t slot = view.slot.at(env, class_->program.buffers[view.buffer].slots);
  return slot_offset(view.buffer, slot) + view.begin(at_);
}

std::byte* RankMemory::address(const View& view, const Env& env) const {
  std::byte* begin = slab(class_->program.buffers[view.buffer].tier).data();
  return begin == nullptr ? nullptr : begin + offset(view, env).value;
}

std::byte* RankMemory::slot_address(BufferId id, std::int64_t slot) const {
  const Tier tier = class_->program.buffers[id].tier;
  if (!device_->host_reaches(tier)) return nullptr;
  return slab(tier).data() + slot_offset(id, slot).value;
}

void RankMemory::load(BufferId id, std::int64_t slot, Bytes bytes, std::byte* to) const {
  const Bytes begin = slot_offset(id, slot);
  const Tier tier = class_->program.buffers[id].tier;
  if (tier == Tier::kNvme) return engine_->read(*file_, begin, bytes, to);
  device_->download(to, slab(tier).data() + begin.value, bytes);
}

void RankMemory::store(BufferId id, std::int64_t slot, Bytes bytes, std::byte* from) const {
  const Bytes begin = slot_offset(id, slot);
  const Tier tier = class_->program.buffers[id].tier;
  if (tier == Tier::kNvme) return engine_->write(*file_, begin, bytes, from);
  device_->upload(slab(tier).data() + begin.value, from, bytes);
}

Slab RankMemory::host_slab(Bytes size) const {
  try {
    return device_->make_slab(Tier::kCpu, size);
  } catch (const Error&) {
    return Slab(size);
  }
}

void check_memory_suffices(const Job& job, std::span<const std::int32_t> ranks,
                           const Device& device) {
  double needed = 0;  // in GiB; the bytes of a cluster's plan may exceed 64 bits
  for (std::int32_t rank : ranks) {
    const Placement& placement = job.class_of(rank).placement;
    for (Tier tier : {Tier::kGpu, Tier::kCpu}) {
      const Bytes slab = placement.slab[static_cast<std::size_t>(tier)];
      if (device.host_reaches(tier)) needed += gib(slab);
    }
    needed += gib(BlockSums::memory_of(placement.slab[static_cast<std::size_t>(Tier::kNvme)]));
  }
  const double available = gib(available_memory());
  if (needed <= available) return;
  throw Error(ExitCode::kDevice,
              fmt::format("{} ranks need {:.2f} GiB of memory, {:.2f} GiB are available here",
                          ranks.size(), needed, available));
}

}  // namespace zplan::exec
