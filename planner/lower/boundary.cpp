#include "planner/lower/boundary.h"

#include <cstdlib>

#include "planner/program/schedule/in_flight.h"

namespace zplan {
namespace {

// The gradient of the next micro-batch can arrive while one is used. [derived]
constexpr std::int32_t kArriving = 2;

}  // namespace

Declared gradient_of_output(const Sizes& sizes) {
  const Plan& plan = sizes.plan;
  const bool arrives = plan.parallel.pp > 1 && plan.pieces() == plan.parallel.pp;
  return declared(
      {.name = "d.x", .shape = {sizes.local_tokens(), sizes.h()}, .dtype = sizes.compute()},
      arrives ? kArriving : 1, Per::kStage, Lives::kInputs);
}

// Of several chunks the stages are a ring: were the bytes of a gradient used again in the next
// pass, its receive would wait for a send, that for the receive of the next stage, and so on
// around.
Boundaries::Boundaries(Stage& stage, const std::vector<Checkpoints>& checkpoints,
                       const PassOrder& order)
    : s_(stage), checkpoints_(checkpoints), shape_{s_.local_tokens(), s_.h()} {
  for (const Chunk& chunk : s_.chunks) {
    s_.enter(chunk);
    std::optional<BufferId>& own = gradients_.emplace_back();
    if (const auto to = own_chunk(-1)) {
      const InFlight on_turn =
          gradient_on_turn(order.passes, chunk.number, static_cast<std::int32_t>(*to));
      const std::string name = "d.turn";
      if (s_.pair.empty()) {
        own = add(chunk, name, on_turn.span);
      } else {  // what goes to the other replica, and what comes from it
        own = add(chunk, "d.x", kArriving);
        gradients_[*to] = add(s_.chunks[*to], name, on_turn.span);
      }
    } else if ((s_.chunks.size() > 1 || s_.across_steps) && !own_chunk(1)) {
      own = add(chunk, "d.x", kArriving);
    }
  }
}

BufferId Boundaries::add(const Chunk& chunk, std::string name, std::int32_t slots) {
  Declared gradient = gradient_of_output(s_);
  gradient.buffer.name = std::move(name);
  return s_.out.add(gradient.times(slots, chunk.prefix()));
}

std::optional<std::size_t> Boundaries::own_chunk(std::int32_t further) const {
  const std::int32_t piece = s_.chunk().piece + further;
  if (piece < 0 || piece == s_.chunk_map.size()) return std::nullopt;
  const ChunkMap::Place at = s_.chunk_map.at(piece);
  if (at.rank != s_.index) return std::nullopt;
  return static_cast<std::size_t>(at.chunk);
}

// Stages are a ring for schedules whose chunks go round.
Boundaries::Neighbour Boundaries::neighbour(std::int32_t further) const {
  const std::int32_t step = s_.chunk_map.at(s_.chunk().piece + further).rank - s_.index;
  const bool wraps = std::abs(step) > 1;
  const bool up = (step > 0) != wraps;
  return {
      {static_cast<std::uint8_t>(s_.mesh.pipeline()), static_cast<std::int8_t>(up ? 1 : -1), wraps},
      up};
}

View Boundaries::of_chunk(std::size_t chunk) const {
  return view_of(*gradients_[chunk], s_.compute(), shape_, {0, 1, 0});
}

void Boundaries::take_input() {
  const View to = checkpoints_[s_.current].first_input();
  if (const auto own = own_chunk(-1)) {
    const View from = checkpoints_[*own].last_output();
    if (!s_.pair.empty()) return exchange(Phase::kForward, from, to);
    return s_.named_by_chunk([&] {
      s_.out.copy({Phase::kForward, Part::kBoundary, Action::kMove}, from, to);
    });
  }
  const Neighbour from = neighbour(-1);
  s_.named_by_chunk([&] {
    s_.out.receive({Phase::kForward, Part::kBoundary, Action::kReceive},
                   from.up ? Lane::kReceiveForwardDown : Lane::kReceiveForwardUp, from.peer, to);
  });
}

void Boundaries::give_output() {
  if (own_chunk(1)) return;
  const Neighbour to = neighbour(1);
  const View x = checkpoints_[s_.current].last_output();
  s_.named_by_chunk([&] {
    s_.out.send({Phase::kForward, Part::kBoundary, Action::kSend},
                to.up ? Lane::kSendForwardUp : Lane::kSendForwardDown, to.peer, x);
  });
}

View Boundaries::gradient() {
  if (const auto from = own_chunk(1)) return of_chunk(s_.pair.empty() ? *from : s_.current);
  if (gradients_[s_.current]) return of_chunk(s_.current);
  const BufferId id = s_.body.get(gradient_of_output(s_).buffer);
  const bool piped = s_.plan.parallel.pp > 1;
  return view_of(id, s_.compute(), shape_, piped ? SlotExpr{0, 1, 0} : SlotExpr{});
}

void Boundaries::take_gradient(const View& dx) {
  if (!own_chunk(1) && !s_.across_steps) receive_gradient(dx);
}

void Boundaries::take_next_gradient(bool last) {
  if (!s_.across_steps || s_.is_last(s_.chunk())) return;
  View next = of_chunk(s_.current);
  next.slot = last ? SlotExpr{} : SlotExpr{1, 1, 0};
  receive_gradient(next);
}

void Boundaries::exchange(Phase phase, const View& own, const View& to) {
  s_.named_by_chunk([&] {
    s_.out.collective({phase, Part::kBoundary, Action::kExchange}, Lane::kCommTensor,
                      CollectiveKind::kShift, {s_.pair}, own, to);
  });
}

void Boundaries::receive_gradient(const View& dx) {
  const Neighbour from = neighbour(1);
  s_.named_by_chunk([&] {
    s_.out.receive({Phase::kBackward, Part::kBoundary, Action::kReceive},
                   from.up ? Lane::kReceiveBackwardDown : Lane::kReceiveBackwardUp, from.peer, dx);
  });
}

void Boundaries::give_gradient(const View& dx) {
  if (const auto own = own_chunk(-1)) {
    if (!s_.pair.empty()) return exchange(Phase::kBackward, dx, of_chunk(*own));
    const View to = of_chunk(s_.current);
    if (dx.buffer != to.buffer)
      s_.named_by_chunk([&] {
        s_.out.copy({Phase::kBackward, Part::kBoundary, Action::kMove}, dx, to);
      });
    return;
  }
  const Neighbour to = neighbour(-1);
  s_.named_by_chunk([&] {
    s_.out.send({Phase::kBackward, Part::kBoundary, Action::kSend},
                to.up ? Lane::kSendBackwardUp : Lane::kSendBackwardDown, to.peer, dx);
  });
}

}  // namespace zplan
