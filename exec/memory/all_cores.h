// Work on memory that all cores share while nothing else runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace zplan::exec {

// [assumed] enough for the memory of two sockets
inline constexpr unsigned kMostMemoryThreads = 16;

// Calls work(part) once for each of so many parts, which may be done in any order.
template <typename Work>
void on_all_cores(std::size_t parts, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto take_parts = [&] {
    for (std::size_t part = next++; part < parts; part = next++) work(part);
  };
  const unsigned threads =
      std::min(kMostMemoryThreads, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < std::min<std::size_t>(threads, parts); ++i)
    others.emplace_back(take_parts);
  take_parts();
}

}  // namespace zplan::exec
