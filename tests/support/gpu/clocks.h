// What came before what on the stand-in GPU. Each in-order line of work (a stream, a branch of a
// graph) is an agent that counts its tasks; a clock says of every agent how many of its tasks come
// before. Two accesses to the same bytes, one of them a write, must be ordered by their clocks,
// however the threads happened to run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zplan::stand_in {

using Clock = std::vector<std::uint32_t>;  // by agent

inline void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

inline std::uint32_t count_of(const Clock& clock, std::size_t agent) {
  return agent < clock.size() ? clock[agent] : 0;
}

struct Access {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;

  const std::byte* end() const { return begin + bytes; }
  bool overlaps(const Access& other) const { return begin < other.end() && other.begin < end(); }
  bool covers(const Access& other) const { return begin <= other.begin && other.end() <= end(); }
};

inline Access read_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes, false};
}
inline Access write_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes, true};
}

// The accesses to one allocation that later ones may collide with.
class Journal {
 public:
  // Adds an access by the agent, whose clock counts the task. Returns what it is not ordered after.
  std::optional<std::string> add(const Access& access, std::size_t agent, const Clock& clock,
                                 const std::string& what) {
    std::optional<std::string> unordered;
    const auto is_before = [&](const Entry& e) {
      return e.agent == agent || count_of(clock, e.agent) >= e.count;
    };
    for (const Entry& e : entries_) {
      const bool collides = (e.access.writes || access.writes) && e.access.overlaps(access);
      if (collides && !is_before(e)) unordered = e.what;
    }
    std::erase_if(entries_, [&](const Entry& e) {
      return is_before(e) && access.covers(e.access) && (access.writes || !e.access.writes);
    });
    entries_.push_back({access, agent, count_of(clock, agent), what});
    return unordered;
  }

 private:
  struct Entry {
    Access access;
    std::size_t agent;
    std::uint32_t count;
    std::string what;
  };
  std::vector<Entry> entries_;
};

}  // namespace zplan::stand_in
