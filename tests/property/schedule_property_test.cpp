// Schedules: folding loses nothing, and the checker agrees with an interpreter that moves messages
// through lanes one by one.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "planner/program/schedule/check.h"
#include "planner/program/schedule/fold.h"
#include "planner/program/schedule/in_flight.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

int draw(int from, int to) { return *rc::gen::inRange(from, to); }

// Repeated groups of repeated groups, so that there is something to fold.
void draw_passes(std::vector<Pass>& passes, std::int32_t micro, int depth) {
  const int groups = draw(1, 4);
  for (int g = 0; g < groups; ++g) {
    const std::size_t begin = passes.size();
    if (depth == 0) {
      passes.push_back({static_cast<PassKind>(draw(0, 4)), draw(0, 8) == 0, draw(0, 3), micro});
    } else {
      draw_passes(passes, micro + draw(0, 5), depth - 1);
    }
    const std::vector<Pass> group(passes.begin() + static_cast<std::ptrdiff_t>(begin),
                                  passes.end());
    const int copies = draw(0, 5), step = draw(-2, 4);
    for (int i = 1; i <= copies; ++i) {
      for (Pass pass : group) {
        pass.micro += i * step;
        passes.push_back(pass);
      }
    }
  }
}

RC_GTEST_PROP(FoldProperty, LosesNothing, ()) {
  PassOrder order;
  draw_passes(order.passes, 100, draw(0, 4));
  for (int i = draw(0, 4); i > 0; --i)
    order.cuts.push_back(
        static_cast<std::size_t>(draw(0, static_cast<int>(order.passes.size()) + 1)));
  std::sort(order.cuts.begin(), order.cuts.end());
  const std::vector<PassLoop> loops = fold(order);
  RC_ASSERT(unfold(loops) == order.passes);
  RC_ASSERT(body_size(loops) <= order.passes.size());
}

// A random place of each chunk, and for each rank a random order in which forward comes before
// backward.
PipelineSchedule draw_schedule() {
  const int ranks = draw(1, 4), chunks = draw(1, 3), micros = draw(1, 4);
  std::vector<std::int32_t> places(static_cast<std::size_t>(ranks * chunks));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int32_t>(i);
  const auto shuffle = [](auto& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(draw(0, static_cast<int>(i)))]);
  };
  shuffle(places);
  std::vector<std::vector<std::int32_t>> positions(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < places.size(); ++i)
    positions[i % positions.size()].push_back(places[i]);
  PipelineSchedule s{ChunkMap(std::move(positions)), micros, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<Pass>> waiting;  // of each micro-batch and chunk what is left
    for (int c = 0; c < chunks; ++c) {
      for (int m = 0; m < micros; ++m) {
        PassOrder parts;
        parts.add(PassKind::kForward, c, m);
        if (draw(0, 2) == 0) {
          parts.add(PassKind::kBackward, c, m);
        } else {
          parts.add(PassKind::kInputBackward, c, m);
          parts.add(PassKind::kWeightBackward, c, m);
        }
        std::reverse(parts.passes.begin(), parts.passes.end());
        waiting.push_back(parts.passes);
      }
    }
    PassOrder& order = s.ranks.emplace_back();
    while (!waiting.empty()) {
      // Often the first: else hardly any schedule is free of deadlocks.
      const auto at =
          waiting.begin() + (draw(0, 3) > 0 ? 0 : draw(0, static_cast<int>(waiting.size())));
      order.passes.push_back(at->back());
      at->pop_back();
      if (at->empty()) waiting.erase(at);
    }
  }
  return s;
}

// Lanes of messages as queues: the sender appends, the receiver takes the first and must find what
// it needs. True when all ranks reach their end.
bool runs(const PipelineSchedule& s) {
  using Message = std::pair<std::int32_t, std::int32_t>;  // position of the reader, micro-batch
  std::map<std::tuple<int, int, bool>, std::vector<Message>> lanes;
  std::set<std::tuple<bool, int, int>> local;  // made on the rank of the reader
  std::vector<std::size_t> next(s.ranks.size());
  const auto step = [&](std::size_t rank) {
    if (next[rank] == s.ranks[rank].passes.size()) return false;
    const Pass& pass = s.ranks[rank].passes[next[rank]];
    const auto own = static_cast<std::int32_t>(rank);
    const std::int32_t position = s.chunks.position(own, pass.chunk);
    const bool forward = pass.kind == PassKind::kForward;
    if (pass.kind != PassKind::kWeightBackward) {
      const std::int32_t from = position + (forward ? -1 : 1);
      const std::int32_t to = position + (forward ? 1 : -1);
      if (from >= 0 && from < s.chunks.size()) {
        const std::int32_t peer = s.chunks.at(from).rank;
        if (peer == own) {
          if (!local.contains({forward, position, pass.micro})) return false;
        } else {
          auto& lane = lanes[{peer, own, forward}];
          if (lane.empty() || lane.front() != Message{position, pass.micro}) return false;
          lane.erase(lane.begin());
        }
      }
      if (to >= 0 && to < s.chunks.size()) {
        const std::int32_t peer = s.chunks.at(to).rank;
        if (peer == own) {
          local.insert({forward, to, pass.micro});
        } else {
          lanes[{own, peer, forward}].emplace_back(to, pass.micro);
        }
      }
    }
    ++next[rank];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < s.ranks.size(); ++rank)
      while (step(rank)) moved = true;
  }
  for (std::size_t rank = 0; rank < s.ranks.size(); ++rank)
    if (next[rank] < s.ranks[rank].passes.size()) return false;
  return true;
}

RC_GTEST_PROP(ScheduleCheckProperty, FindsAFaultWhereMessagesDoNotMeet, ()) {
  const PipelineSchedule s = draw_schedule();
  const auto fault = fault_of(s);
  RC_CLASSIFY(!fault.has_value(), "without a fault");
  RC_ASSERT(runs(s) == !fault.has_value());
}

RC_GTEST_PROP(InFlightProperty, HasSlotsOfTheirOwnInARing, ()) {
  const PipelineSchedule s = draw_schedule();
  for (const PassOrder& order : s.ranks) {
    for (std::int32_t chunk = 0; chunk < s.chunks.chunks(); ++chunk) {
      const InFlight count = forward_to_backward(order.passes, chunk);
      std::map<std::int32_t, std::int32_t> slots;  // micro-batch that has it
      for (const Pass& pass : order.passes) {
        if (pass.chunk != chunk) continue;
        if (pass.kind == PassKind::kForward)
          RC_ASSERT(slots.try_emplace(pass.micro % count.span, pass.micro).second);
        if (gives_weight_gradient(pass.kind)) slots.erase(pass.micro % count.span);
        RC_ASSERT(static_cast<std::int32_t>(slots.size()) <= count.most);
      }
    }
  }
}

}  // namespace
}  // namespace zplan
