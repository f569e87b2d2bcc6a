#include "planner/lower/beside.h"

#include <algorithm>

#include "planner/lower/pipeline.h"

namespace zplan {

void LayersBeside::emit() {
  auto forward = forward_.loops.begin(), backward = backward_.loops.begin();
  while (forward != forward_.loops.end() && backward != backward_.loops.end()) {
    if (forward->loop.together != backward->loop.together) {
      alone(backward_, *backward++);
      alone(forward_, *forward++);
      continue;
    }
    const std::int32_t count = std::min(forward->loop.count, backward->loop.count);
    both(forward->take(count), backward->take(count));
    if (forward->loop.count == 0) ++forward;
    if (backward->loop.count == 0) ++backward;
  }
  for (; backward != backward_.loops.end(); ++backward) alone(backward_, *backward);
  for (; forward != forward_.loops.end(); ++forward) alone(forward_, *forward);
}

// Emits in the chunk of this side, with the buffers of its body.
void LayersBeside::in(const Side& side, const std::function<void()>& emit) {
  const bool is_other = &side == &backward_;
  if (is_other) s_.body.take_turns();
  s_.enter(side.pass);
  emit();
  if (is_other) s_.body.take_turns();
}

void LayersBeside::alone(const Side& side, const LayerLoop& loop) {
  in(side, [&] {
    if (loop.is_cut) s_.body.next_body();
    at_micro(s_.out, side.pass.micro,
             [&] { s_.out.repeat(loop.repeat(), [&] { loop.body(loop.loop); }); });
  });
}

LayersBeside::Parts LayersBeside::record(const Side& side, const LayerLoop& loop) {
  Parts parts;
  in(side, [&] {
    if (loop.is_cut) s_.body.next_body();
    parts = s_.out.record([&] { loop.body(loop.loop); });
  });
  return parts;
}

// The layer of the backward is as far from the last of the loop as that of the forward from the
// first.
void LayersBeside::both(const LayerLoop& forward, const LayerLoop& backward) {
  const Parts ups = record(forward_, forward), downs = record(backward_, backward);
  const Repeat up = forward.repeat(), down = backward.repeat();
  const Repeat mirror{.count = 1,
                      .var = Var::kLayer,
                      .first = up.first + down.first,
                      .step = down.step,
                      .relative = true,
                      .mirrored = true};
  s_.out.repeat(up, [&] {
    for (std::size_t i = 0; i < std::max(ups.size(), downs.size()); ++i) {
      if (i < downs.size())
        at_micro(s_.out, backward_.pass.micro,
                 [&] { s_.out.repeat(mirror, [&] { s_.out.play(downs[i]); }); });
      if (i < ups.size()) at_micro(s_.out, forward_.pass.micro, [&] { s_.out.play(ups[i]); });
    }
  });
}

}  // namespace zplan
