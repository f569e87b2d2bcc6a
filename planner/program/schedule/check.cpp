#include "planner/program/schedule/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/program/schedule/timing.h"

namespace zplan {
namespace {

using Fault = std::optional<std::string>;

// Which passes of a micro-batch through a chunk a rank has done.
struct Done {
  bool forward = false, input = false, weight = false;
};

class RankCheck {
 public:
  RankCheck(const PipelineSchedule& schedule, std::int32_t rank)
      : s_(schedule),
        rank_(rank),
        done_(static_cast<std::size_t>(schedule.chunks.chunks()) *
              static_cast<std::size_t>(schedule.micro_batches)) {}

  Fault run() {
    for (const Pass& pass : s_.ranks[static_cast<std::size_t>(rank_)].passes) {
      if (Fault fault = outside(pass)) return fault;
      if (Fault fault = take(pass, done_[index(pass)])) return fault;
    }
    for (std::int32_t chunk = 0; chunk < s_.chunks.chunks(); ++chunk)
      for (std::int32_t micro = 0; micro < s_.micro_batches; ++micro)
        if (Fault fault = missing(chunk, micro)) return fault;
    return std::nullopt;
  }

 private:
  std::size_t index(const Pass& pass) const {
    return static_cast<std::size_t>(pass.chunk) * static_cast<std::size_t>(s_.micro_batches) +
           static_cast<std::size_t>(pass.micro);
  }

  Fault outside(const Pass& pass) const {
    if (pass.chunk < 0 || pass.chunk >= s_.chunks.chunks())
      return fmt::format("rank {}: {}: a rank has {} chunks", rank_, description(pass),
                         s_.chunks.chunks());
    if (pass.micro < 0 || pass.micro >= s_.micro_batches)
      return fmt::format("rank {}: {}: a step has {} micro-batches", rank_, description(pass),
                         s_.micro_batches);
    return std::nullopt;
  }

  Fault take(const Pass& pass, Done& done) const {
    const bool forward = pass.kind == PassKind::kForward;
    if ((forward && done.forward) || (gives_input_gradient(pass.kind) && done.input) ||
        (gives_weight_gradient(pass.kind) && done.weight))
      return fmt::format("rank {}: {} comes a second time", rank_, description(pass));
    if (!forward && !done.forward)
      return fmt::format("rank {}: {} comes before its forward", rank_, description(pass));
    if (pass.kind == PassKind::kWeightBackward && !done.input)
      return fmt::format("rank {}: {} comes before its input backward", rank_, description(pass));
    done.forward |= forward;
    done.input |= gives_input_gradient(pass.kind);
    done.weight |= gives_weight_gradient(pass.kind);
    return std::nullopt;
  }

  Fault missing(std::int32_t chunk, std::int32_t micro) const {
    Pass pass{.chunk = chunk, .micro = micro};
    const Done& done = done_[index(pass)];
    if (done.weight) return std::nullopt;
    if (done.forward) pass.kind = done.input ? PassKind::kWeightBackward : PassKind::kBackward;
    return fmt::format("rank {}: {} is missing", rank_, description(pass));
  }

  const PipelineSchedule& s_;
  std::int32_t rank_;
  std::vector<Done> done_;
};

// "rank 0 waits at X for .. on rank 1, which waits at Y for .. on rank 0": the circle that the rank
// waits for.
std::string circle_from(const PipelineSchedule& s, const ScheduleTime& time, std::int32_t rank) {
  const auto at = [&](std::int32_t r) {
    const auto i = static_cast<std::size_t>(r);
    return s.ranks[i].passes[time.ranks[i].done];
  };
  const auto next = [&](std::int32_t r) { return input_of(s.chunks, r, at(r))->from.rank; };
  std::vector<bool> seen(s.ranks.size());
  for (; !seen[static_cast<std::size_t>(rank)]; rank = next(rank))
    seen[static_cast<std::size_t>(rank)] = true;
  std::string line = fmt::format("rank {} waits", rank);
  for (std::int32_t r = rank;;) {
    const auto input = input_of(s.chunks, r, at(r));
    line +=
        fmt::format(" at {} for the {} of chunk {} on rank {}", description(at(r)),
                    input->forward ? "output" : "gradient", input->from.chunk, input->from.rank);
    r = input->from.rank;
    if (r == rank) return line;
    line += ", which waits";
  }
}

Fault stuck(const PipelineSchedule& s) {
  const ScheduleTime time =
      time_of(s, std::vector<PassUnits>(static_cast<std::size_t>(s.chunks.size())));
  for (std::size_t rank = 0; rank < s.ranks.size(); ++rank)
    if (time.ranks[rank].done < s.ranks[rank].passes.size())
      return circle_from(s, time, static_cast<std::int32_t>(rank));
  return std::nullopt;
}

// Of a message, the chunk that reads it and the micro-batch.
struct Message {
  std::int32_t reader = 0, micro = 0;
  friend bool operator==(const Message&, const Message&) = default;
};
// By sender, receiver and direction.
using Messages = std::map<std::tuple<std::int32_t, std::int32_t, bool>, std::vector<Message>>;

Messages received(const PipelineSchedule& s) {
  Messages result;
  for (std::int32_t rank = 0; rank < s.chunks.ranks(); ++rank)
    for (const Pass& pass : s.ranks[static_cast<std::size_t>(rank)].passes)
      if (const auto input = input_of(s.chunks, rank, pass); input && input->from.rank != rank)
        result[{input->from.rank, rank, input->forward}].push_back({pass.chunk, pass.micro});
  return result;
}

Messages sent(const PipelineSchedule& s) {
  Messages result;
  for (std::int32_t rank = 0; rank < s.chunks.ranks(); ++rank) {
    for (const Pass& pass : s.ranks[static_cast<std::size_t>(rank)].passes) {
      const auto to = reader_of(s.chunks, rank, pass);
      if (to && to->rank != rank)
        result[{rank, to->rank, pass.kind == PassKind::kForward}].push_back(
            {to->chunk, pass.micro});
    }
  }
  return result;
}

// Each micro-batch is there once on both sides, so the lists differ in order alone.
Fault crossed(const PipelineSchedule& s) {
  const Messages from = sent(s), to = received(s);
  for (const auto& [lane, messages] : from) {
    const std::vector<Message>& other = to.at(lane);
    const auto [a, b] = std::mismatch(messages.begin(), messages.end(), other.begin());
    if (a == messages.end()) continue;
    const auto& [sender, receiver, forward] = lane;
    return fmt::format(
        "rank {} sends rank {} the {} of micro-batch {} for chunk {} where rank {} reads that of "
        "micro-batch {} for chunk {}",
        sender, receiver, forward ? "output" : "gradient", a->micro, a->reader, receiver, b->micro,
        b->reader);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> fault_of(const PipelineSchedule& schedule) {
  if (std::ssize(schedule.ranks) != schedule.chunks.ranks())
    return fmt::format("passes are given for {} ranks of {}", schedule.ranks.size(),
                       schedule.chunks.ranks());
  for (std::int32_t rank = 0; rank < schedule.chunks.ranks(); ++rank)
    if (Fault fault = RankCheck(schedule, rank).run()) return fault;
  if (Fault fault = stuck(schedule)) return fault;
  return crossed(schedule);
}

}  // namespace zplan
