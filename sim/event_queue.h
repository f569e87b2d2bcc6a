// The order of simulated events: earliest time first, then the smallest order number. Times are
// SimTime (picoseconds). Where each pair (time, order) occurs once, the popping sequence depends
// only on what was pushed, not on when; the simulator uses the node order.
//
// A 4-ary min-heap on one vector: half the depth of a binary heap, the four children side by side
// in memory. Push and pop allocate only when the vector has to grow.
// Leaves out: changing or removing an event inside the queue (push a newer one, ignore the older).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/units.h"

namespace zplan::sim {

template <typename Payload, typename Order = std::uint64_t>
class EventQueue {
 public:
  struct Event {
    SimTime time;
    Order order = 0;
    Payload payload;
  };

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::size_t capacity() const { return heap_.capacity(); }
  void reserve(std::size_t events) { heap_.reserve(events); }
  void clear() { heap_.clear(); }  // keeps the capacity

  // Moves all events; their order stays.
  void shift(SimTime time) {
    for (Event& event : heap_) event.time += time;
  }

  void push(SimTime time, Order order, Payload payload) {
    heap_.push_back({time, order, std::move(payload)});
    sift_up(heap_.size() - 1);
  }

  const Event& top() const {
    ZPLAN_ASSERT(!heap_.empty());
    return heap_.front();
  }

  Event pop() {
    ZPLAN_ASSERT(!heap_.empty());
    Event first = std::move(heap_.front());
    if (heap_.size() > 1) {
      heap_.front() = std::move(heap_.back());
      heap_.pop_back();
      sift_down(0);
    } else {
      heap_.pop_back();
    }
    return first;
  }

 private:
  static constexpr std::size_t kArity = 4;

  static bool before(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.order < b.order;
  }

  void sift_up(std::size_t hole) {
    Event moving = std::move(heap_[hole]);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kArity;
      if (!before(moving, heap_[parent])) break;
      heap_[hole] = std::move(heap_[parent]);
      hole = parent;
    }
    heap_[hole] = std::move(moving);
  }

  void sift_down(std::size_t hole) {
    Event moving = std::move(heap_[hole]);
    while (kArity * hole + 1 < heap_.size()) {
      const std::size_t child = earliest_child(hole);
      if (!before(heap_[child], moving)) break;
      heap_[hole] = std::move(heap_[child]);
      hole = child;
    }
    heap_[hole] = std::move(moving);
  }

  std::size_t earliest_child(std::size_t parent) const {
    const std::size_t first = kArity * parent + 1;
    const std::size_t end = std::min(first + kArity, heap_.size());
    std::size_t best = first;
    for (std::size_t child = first + 1; child < end; ++child) {
      if (before(heap_[child], heap_[best])) best = child;
    }
    return best;
  }

  std::vector<Event> heap_;
};

}  // namespace zplan::sim
