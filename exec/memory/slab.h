// Memory of one rank: one slab per tier, sized by the placement, mapped before the run and never
// grown. Which place a view has is decided here and nowhere else:
//   slab(tier of buffer) + offset of buffer + slot * slot_size
//     + where the view begins within the slot for the rank's place in the mesh
// The slab of kNvme is a file (offload/slab_file.h), the others are memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "exec/offload/storage.h"
#include "planner/core/units.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

// Memory of one tier: page-aligned anonymous memory, filled with poison, or what a device gives.
class Slab {
 public:
  using Release = void (*)(std::byte* data, Bytes size) noexcept;

  Slab() = default;
  explicit Slab(Bytes size);
  Slab(std::byte* data, Bytes size, Release release)
      : data_(data), size_(size), release_(release) {}
  ~Slab();
  Slab(Slab&& other) noexcept;
  Slab& operator=(Slab&& other) noexcept;

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  // Whether loads and stores are allowed; touching a slab that is not accessible is a fault.
  void set_accessible(bool accessible);
  // Keeps it from being swapped out, so that devices can reach it at any time. Nothing, or why the
  // system refuses.
  std::optional<std::string> pin();
  // The same for the pages that lie wholly in [begin, end), of an accessible slab.
  void set_accessible(Bytes begin, Bytes end, bool accessible);

 private:
  static void protect(std::byte* begin, Bytes bytes, bool accessible);

  std::byte* data_ = nullptr;
  Bytes size_{0};
  Release release_ = nullptr;
  bool accessible_ = true;
};

class Device;
class SlabFile;
class IoEngine;

// Refers to the Job, which must outlive it.
class RankMemory {
 public:
  // The job is placed; no device: the CPU. Throws Error: kDevice when memory or storage cannot be
  // had, kBadInput when there is no directory for a slab on NVMe.
  RankMemory(const Job& job, std::int32_t rank, const StorageOptions& storage = {},
             std::shared_ptr<Device> device = nullptr);
  ~RankMemory();
  RankMemory(RankMemory&&) noexcept;
  RankMemory& operator=(RankMemory&&) noexcept;

  const RankClass& rank_class() const { return *class_; }
  const Mesh& mesh() const { return *mesh_; }
  const MeshPoint& point() const { return at_; }
  std::int32_t rank() const { return mesh_->rank_of(at_); }

  // Bytes from the begin of the slab of the buffer's tier.
  Bytes slot_offset(BufferId buffer, std::int64_t slot) const;
  Bytes offset(const View& view, const Env& env) const;
  // Where operations find a view; null for what lies on NVMe.
  std::byte* address(const View& view, const Env& env) const;
  // Where the CPU may load and store a slot; null for what it does not reach: load and store do.
  std::byte* slot_address(BufferId buffer, std::int64_t slot) const;
  Slab& slab(Tier tier) { return slabs_[static_cast<std::size_t>(tier)]; }
  const Slab& slab(Tier tier) const { return slabs_[static_cast<std::size_t>(tier)]; }
  // Null when the job keeps nothing on NVMe.
  SlabFile* file() const { return file_.get(); }

  // The first bytes of a slot anywhere. Not during a step, one call at a time; the memory is page
  // aligned.
  void load(BufferId buffer, std::int64_t slot, Bytes bytes, std::byte* to) const;
  void store(BufferId buffer, std::int64_t slot, Bytes bytes, std::byte* from) const;
  // Host memory into which load() is fast: pinned for a device, or plain where it has none left.
  Slab host_slab(Bytes size) const;

 private:
  const RankClass* class_;
  const Mesh* mesh_;
  MeshPoint at_;
  std::shared_ptr<Device> device_;
  std::array<Slab, kTierCount> slabs_;
  std::unique_ptr<SlabFile> file_;
  std::unique_ptr<IoEngine> engine_;  // for load and store
};

// What the system says it can give without swapping. Throws Error(kDevice) when it does not say.
Bytes available_memory();

// Throws Error(kDevice) when the host memory of the slabs of these ranks together exceeds what this
// machine has available now. Left out: the shadow of a guarded run, limits on this process alone,
// memory of other devices, NVMe.
void check_memory_suffices(const Job& job, std::span<const std::int32_t> ranks,
                           const Device& device);

}  // namespace zplan::exec
