#include "planner/place/caching_allocator.h"

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr Bytes kKiB{1 << 10}, kMiB{1 << 20};
constexpr Bytes kRounding = kKiB / 2;
constexpr Bytes kLargestSmall = kMiB;  // request of the small pool
constexpr Bytes kSmallSegment = 2 * kMiB;
constexpr Bytes kOwnSegment = 10 * kMiB;  // requests from here on get a segment of their size
constexpr Bytes kLargeSegment = 20 * kMiB;
constexpr Bytes kSegmentRounding = 2 * kMiB;
// Addresses of a segment lie together: no segment is larger.
constexpr std::size_t kAddressesPerSegment = std::size_t{1} << 46;

Bytes rounded(Bytes size) { return round_up(std::max(size, Bytes{1}), kRounding); }

bool is_small(Bytes request) { return request <= kLargestSmall; }

std::size_t pool_index(bool small) { return small ? 0 : 1; }

Bytes segment_size(Bytes request, bool small) {
  if (small) return kSmallSegment;
  return request < kOwnSegment ? kLargeSegment : round_up(request, kSegmentRounding);
}

}  // namespace

CachingAllocator::Handle CachingAllocator::add(Block block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return blocks_.size() - 1;
  }
  const Handle at = unused_.back();
  unused_.pop_back();
  blocks_[at] = block;
  return at;
}

void CachingAllocator::put_free(Handle block) {
  Block& b = blocks_[block];
  b.free = true;
  pool(b.small).insert({b.size, b.address, block});
}

void CachingAllocator::take_free(Handle block) {
  Block& b = blocks_[block];
  b.free = false;
  pool(b.small).erase({b.size, b.address, block});
}

CachingAllocator::Handle CachingAllocator::new_segment(Bytes request, bool small) {
  const Bytes size = segment_size(request, small);
  reserved_ += size;
  return add({.size = size, .small = small, .address = kAddressesPerSegment * ++next_address_});
}

// The end of the expandable segment, made long enough for the request; not free.
CachingAllocator::Handle CachingAllocator::grown(Bytes request, bool small) {
  const Bytes page = small ? kSmallSegment : kLargeSegment;
  Handle& last = last_[pool_index(small)];
  if (last == kNone) {
    last = add({.small = small, .address = kAddressesPerSegment * ++next_address_});
  } else if (blocks_[last].free) {
    take_free(last);
  } else {
    const Block before = blocks_[last];
    const Handle end =
        add({.small = small,
             .before = last,
             .address = before.address + static_cast<std::size_t>(before.size.value)});
    blocks_[last].after = end;
    last = end;
  }
  Block& end = blocks_[last];
  const Bytes more = round_up(request - end.size, page);
  end.size += more;
  reserved_ += more;
  return last;
}

// Leaves `request` bytes in the block and frees the rest where that is worth a block.
void CachingAllocator::split(Handle block, Bytes request) {
  const Block whole = blocks_[block];
  const Bytes rest = whole.size - request;
  const bool any = whole.small || expandable_;
  if (any ? rest < kRounding : rest <= kLargestSmall) return;
  const Handle right = add({.size = rest,
                            .small = whole.small,
                            .before = block,
                            .after = whole.after,
                            .address = whole.address + static_cast<std::size_t>(request.value)});
  blocks_[block].size = request;
  blocks_[block].after = right;
  if (whole.after != kNone) blocks_[whole.after].before = right;
  for (Handle& last : last_)
    if (last == block) last = right;
  put_free(right);
}

bool CachingAllocator::has_room(Bytes size, Bytes capacity) const {
  const Bytes request = rounded(size);
  const bool small = is_small(request);
  return pool(small).lower_bound({request, 0, 0}) != pool(small).end() ||
         reserved_ + segment_size(request, small) <= capacity;
}

void CachingAllocator::give_back() {
  for (std::set<Key>& blocks : free_)
    std::erase_if(blocks, [&](const Key& key) {
      const Block& block = blocks_[key.block];
      if (block.before != kNone || block.after != kNone) return false;
      reserved_ -= block.size;
      unused_.push_back(key.block);
      return true;
    });
}

CachingAllocator::Handle CachingAllocator::allocate(Bytes size) {
  const Bytes request = rounded(size);
  const bool small = is_small(request);
  std::set<Key>& blocks = pool(small);
  const auto found = blocks.lower_bound({request, 0, 0});
  Handle block = kNone;
  if (found != blocks.end()) {
    block = found->block;
    take_free(block);
  } else {
    block = expandable_ ? grown(request, small) : new_segment(request, small);
  }
  split(block, request);
  allocated_ += blocks_[block].size;
  most_allocated_ = std::max(most_allocated_, allocated_);
  most_reserved_ = std::max(most_reserved_, reserved_);
  return block;
}

// Two neighbours become the left one.
CachingAllocator::Handle CachingAllocator::joined(Handle left, Handle right) {
  Block& l = blocks_[left];
  const Block& r = blocks_[right];
  l.size += r.size;
  l.after = r.after;
  if (r.after != kNone) blocks_[r.after].before = left;
  for (Handle& last : last_)
    if (last == right) last = left;
  unused_.push_back(right);
  return left;
}

void CachingAllocator::release(Handle block) {
  ZPLAN_ASSERT(!blocks_[block].free);
  allocated_ -= blocks_[block].size;
  const Handle after = blocks_[block].after, before = blocks_[block].before;
  if (after != kNone && blocks_[after].free) {
    take_free(after);
    joined(block, after);
  }
  if (before != kNone && blocks_[before].free) {
    take_free(before);
    block = joined(before, block);
  }
  put_free(block);
}

}  // namespace zplan
