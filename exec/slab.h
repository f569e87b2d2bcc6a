// Memory of one rank: one slab per tier, sized by the placement, mapped before the run and never
// grown. Which address a view has is decided here and nowhere else:
//   slab(tier of buffer) + offset of buffer + slot * slot_size + view offset + dp_index * dp_stride
// Leaves out: pinned memory, storage behind kNvme (on this backend a slab of memory like the
// others).
#pragma once

#include <array>
#include <cstddef>

#include "planner/core/units.h"
#include "planner/program/job.h"

namespace zplan::exec {

// Page-aligned anonymous memory, filled with poison.
class Slab {
 public:
  Slab() = default;
  explicit Slab(Bytes size);
  ~Slab();
  Slab(Slab&& other) noexcept;
  Slab& operator=(Slab&& other) noexcept;

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  // Whether loads and stores are allowed; touching a slab that is not accessible is a fault.
  void set_accessible(bool accessible);
  // Takes access to the pages that lie wholly in [begin, end) away, until set_accessible.
  void hide(Bytes begin, Bytes end);

 private:
  std::byte* data_ = nullptr;
  Bytes size_{0};
  bool accessible_ = true;
};

// Refers to the Job, which must outlive it.
class RankMemory {
 public:
  // The job is placed. Throws Error(kDevice) when the memory cannot be had.
  RankMemory(const Job& job, std::int32_t rank);

  const RankClass& rank_class() const { return *class_; }
  std::int32_t stage() const { return class_->stage; }
  std::int32_t dp_index() const { return dp_index_; }

  std::byte* slot_address(BufferId buffer, std::int64_t slot) const;
  std::byte* address(const View& view, const Env& env) const;
  Slab& slab(Tier tier) { return slabs_[static_cast<std::size_t>(tier)]; }
  const Slab& slab(Tier tier) const { return slabs_[static_cast<std::size_t>(tier)]; }

 private:
  const RankClass* class_;
  std::int32_t dp_index_;
  std::array<Slab, kTierCount> slabs_;
};

// Throws Error(kDevice) when the slabs of all ranks together exceed what this machine has available
// now. Left out: the shadow of a guarded run, limits on this process alone.
void check_memory_suffices(const Job& job);

}  // namespace zplan::exec
