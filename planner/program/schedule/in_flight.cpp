#include "planner/program/schedule/in_flight.h"

#include <algorithm>

namespace zplan {
namespace {

// The micro-batches that are open, by number.
class Open {
 public:
  void add(std::int32_t micro) {
    if (count_++ == 0) first_ = last_ = micro;
    first_ = std::min(first_, micro);
    last_ = std::max(last_, micro);
    if (is_open_.size() <= static_cast<std::size_t>(micro))
      is_open_.resize(static_cast<std::size_t>(micro) + 1);
    set(micro, true);
  }
  void remove(std::int32_t micro) {
    set(micro, false);
    if (--count_ == 0) return;
    while (!is_open_[static_cast<std::size_t>(first_)]) ++first_;
    while (!is_open_[static_cast<std::size_t>(last_)]) --last_;
  }
  std::int32_t count() const { return count_; }
  std::int32_t span() const { return last_ - first_ + 1; }

 private:
  void set(std::int32_t micro, bool open) { is_open_[static_cast<std::size_t>(micro)] = open; }

  std::vector<bool> is_open_;
  std::int32_t count_ = 0, first_ = 0, last_ = 0;
};

template <typename Opens, typename Closes>
InFlight between(std::span<const Pass> passes, const Opens& opens, const Closes& closes) {
  InFlight result;
  Open open;
  for (const Pass& pass : passes) {
    if (opens(pass)) {
      open.add(pass.micro);
      result.most = std::max(result.most, open.count());
      result.span = std::max(result.span, open.span());
    } else if (closes(pass)) {
      open.remove(pass.micro);
    }
  }
  return result;
}

}  // namespace

InFlight forward_to_backward(std::span<const Pass> passes, std::int32_t chunk) {
  return between(
      passes, [&](const Pass& p) { return p.chunk == chunk && p.kind == PassKind::kForward; },
      [&](const Pass& p) { return p.chunk == chunk && gives_weight_gradient(p.kind); });
}

InFlight input_to_weight(std::span<const Pass> passes, std::int32_t chunk) {
  return between(
      passes, [&](const Pass& p) { return p.chunk == chunk && p.kind == PassKind::kInputBackward; },
      [&](const Pass& p) { return p.chunk == chunk && p.kind == PassKind::kWeightBackward; });
}

InFlight gradient_on_turn(std::span<const Pass> passes, std::int32_t from, std::int32_t to) {
  return between(
      passes, [&](const Pass& p) { return p.chunk == from && gives_input_gradient(p.kind); },
      [&](const Pass& p) { return p.chunk == to && gives_input_gradient(p.kind); });
}

std::int32_t most_chunks_in_flight(std::span<const Pass> passes) {
  std::int32_t now = 0, most = 0;
  for (const Pass& pass : passes) {
    now += pass.kind == PassKind::kForward ? 1 : gives_weight_gradient(pass.kind) ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace zplan
