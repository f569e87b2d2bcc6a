// A caching allocator of device memory, replayed request by request: PyTorch's rules for one stream
// [PyTorch CUDACachingAllocator.cpp].
//
//   size      requests are rounded up to 512 B
//   pools     up to 1 MiB: small, segments of 2 MiB; above: large, segments of 20 MiB for requests
//             below 10 MiB, else of the request rounded up to 2 MiB
//   choice    the smallest free block of the pool that holds the request, of these the first by
//             address, else a new segment
//   splitting the rest stays a free block where it is at least 512 B (small), more than 1 MiB
//             (large)
//   freeing   a block joins its free neighbours of the segment
//   expandable segments: one of each pool, that grows at its end by pages of 2 MiB (small), 20 MiB
//             (large); every rest of at least 512 B is split off
//   giving back  segments of which nothing is in use leave when memory runs out
// Left out: several streams.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "planner/core/units.h"

namespace zplan {

class CachingAllocator {
 public:
  explicit CachingAllocator(bool expandable_segments) : expandable_(expandable_segments) {}

  using Handle = std::size_t;
  Handle allocate(Bytes size);
  void release(Handle block);
  // True where a free block holds the request, or a new segment within so many bytes of all.
  bool has_room(Bytes size, Bytes capacity) const;
  void give_back();

  Bytes size(Handle block) const { return blocks_[block].size; }  // rounded
  Bytes allocated() const { return allocated_; }                  // rounded, of the blocks in use
  Bytes reserved() const { return reserved_; }                    // of the segments
  Bytes most_allocated() const { return most_allocated_; }
  Bytes most_reserved() const { return most_reserved_; }

 private:
  // Of one segment, in order of address: neighbours are chained.
  struct Block {
    Bytes size{0};
    bool free = false, small = false;
    Handle before = kNone, after = kNone;
    std::size_t address = 0;  // order of creation of the segment, then of the bytes in it
  };
  static constexpr Handle kNone = ~Handle{0};
  struct Key {
    Bytes size{0};
    std::size_t address;
    Handle block;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  std::set<Key>& pool(bool small) { return free_[small ? 0 : 1]; }
  const std::set<Key>& pool(bool small) const { return free_[small ? 0 : 1]; }
  Handle add(Block block);
  Handle new_segment(Bytes request, bool small);
  Handle grown(Bytes request, bool small);
  void split(Handle block, Bytes request);
  Handle joined(Handle left, Handle right);
  void put_free(Handle block);
  void take_free(Handle block);

  bool expandable_;
  std::vector<Block> blocks_;
  std::vector<Handle> unused_;  // of blocks_
  std::array<std::set<Key>, 2> free_;
  std::array<Handle, 2> last_{kNone, kNone};  // blocks at the ends of the expandable segments
  std::size_t next_address_ = 0;
  Bytes allocated_{0}, reserved_{0}, most_allocated_{0}, most_reserved_{0};
};

}  // namespace zplan
