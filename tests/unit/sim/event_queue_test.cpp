#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

namespace zplan::sim {
namespace {

using Key = std::pair<std::int64_t, std::uint64_t>;

// A fixed scrambled sequence; what matters is that it is neither rising nor falling.
std::uint64_t scramble(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

TEST(EventQueue, PopsByTimeThenByOrder) {
  EventQueue<char> queue;
  queue.push({20}, 1, 'd');
  queue.push({10}, 7, 'b');
  queue.push({20}, 0, 'c');
  queue.push({10}, 3, 'a');
  queue.push({30}, 0, 'e');
  std::string popped;
  while (!queue.empty()) popped += queue.pop().payload;
  EXPECT_EQ(popped, "abcde");
}

TEST(EventQueue, TopIsWhatPopReturns) {
  EventQueue<int> queue;
  queue.push({5}, 2, 52);
  queue.push({5}, 1, 51);
  EXPECT_EQ(queue.top().payload, 51);
  const auto event = queue.pop();
  EXPECT_EQ(event.time.value, 5);
  EXPECT_EQ(event.order, 1u);
  EXPECT_EQ(event.payload, 51);
  EXPECT_EQ(queue.size(), 1u);
}

TEST(EventQueue, AgreesWithAnOrderedSetWhenPushesAndPopsInterleave) {
  EventQueue<std::uint64_t> queue;
  std::set<Key> reference;
  std::uint64_t state = 1;
  for (std::uint64_t step = 0; step < 20000; ++step) {
    if (reference.empty() || scramble(state) % 5 < 3) {
      const Key key{static_cast<std::int64_t>(scramble(state) % 100), step};
      queue.push({key.first}, key.second, step);
      reference.insert(key);
    } else {
      const auto event = queue.pop();
      ASSERT_EQ(Key(event.time.value, event.order), *reference.begin());
      ASSERT_EQ(event.payload, event.order);
      reference.erase(reference.begin());
    }
    ASSERT_EQ(queue.size(), reference.size());
  }
}

TEST(EventQueue, MovesPayloadsThatCannotBeCopied) {
  EventQueue<std::unique_ptr<int>> queue;
  for (int i = 9; i >= 0; --i) {
    queue.push({i}, 0, std::make_unique<int>(i));
  }
  for (int i = 0; i < 10; ++i) {
    const auto event = queue.pop();
    ASSERT_NE(event.payload, nullptr);
    EXPECT_EQ(*event.payload, i);
  }
}

TEST(EventQueue, KeepsItsCapacityWhenClearedAndWhenChurning) {
  EventQueue<int> queue;
  queue.reserve(16);
  const std::size_t capacity = queue.capacity();
  for (int i = 0; i < 16; ++i) queue.push({i}, 0, i);
  for (int i = 16; i < 1000; ++i) {
    EXPECT_EQ(queue.pop().payload, i - 16);
    queue.push({i}, 0, i);
  }
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.capacity(), capacity);
}

TEST(EventQueue, RefusesToPopWhenEmpty) {
  EventQueue<int> queue;
  EXPECT_THROW(queue.pop(), Error);
  EXPECT_THROW(queue.top(), Error);
}

}  // namespace
}  // namespace zplan::sim
