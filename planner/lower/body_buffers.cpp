#include "planner/lower/body_buffers.h"

#include <algorithm>

namespace zplan {

void BodyBuffers::next_body() { current_.clear(); }

void BodyBuffers::next_layer() {
  std::erase_if(current_, [&](const auto& entry) { return out_.buffer(entry.second).slots == 1; });
}

void BodyBuffers::next_bodies() {
  current_.clear();
  other_.clear();
}

void BodyBuffers::apart(const std::function<void()>& iteration) {
  const std::map<std::string, BufferId> before = current_;
  iteration();
  std::erase_if(current_, [&](const auto& entry) {
    return out_.buffer(entry.second).slots == 1 && !before.contains(entry.first);
  });
}

BufferId BodyBuffers::get(Buffer buffer) {
  const auto [at, is_new] = current_.try_emplace(buffer.name);
  if (!is_new) {
    Bytes& size = out_.buffer(at->second).slot_size;
    size = std::max(size, round_up(buffer.slot_size, alignment(buffer.tier)));
    return at->second;
  }
  const int emission = ++emissions_[buffer.name];
  if (emission > 1) buffer.name += "." + std::to_string(emission);
  return at->second = out_.add(std::move(buffer));
}

}  // namespace zplan
