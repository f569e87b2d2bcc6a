#include "planner/program/schedule/timing.h"

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr std::int64_t kNotYet = -1;

// The piece so many further on the way of the pass: up the model, or down in backward; of a weight
// backward none.
std::optional<ChunkMap::Place> neighbour(const ChunkMap& chunks, std::int32_t rank,
                                         const Pass& pass, std::int32_t further) {
  const bool forward = pass.kind == PassKind::kForward;
  if (!forward && !gives_input_gradient(pass.kind)) return std::nullopt;
  const std::int32_t there = chunks.position(rank, pass.chunk) + (forward ? further : -further);
  if (there < 0 || there == chunks.size()) return std::nullopt;
  return chunks.at(there);
}

// When outputs and gradients of the pieces are there, by position and micro-batch.
class Times {
 public:
  explicit Times(const PipelineSchedule& schedule)
      : micros_(static_cast<std::size_t>(schedule.micro_batches)),
        outputs_(static_cast<std::size_t>(schedule.chunks.size()) * micros_, kNotYet),
        gradients_(outputs_) {}

  std::int64_t& at(bool forward, std::int32_t position, std::int32_t micro) {
    const std::size_t i =
        static_cast<std::size_t>(position) * micros_ + static_cast<std::size_t>(micro);
    return forward ? outputs_[i] : gradients_[i];
  }

 private:
  std::size_t micros_;
  std::vector<std::int64_t> outputs_, gradients_;
};

class Walk {
 public:
  Walk(const PipelineSchedule& schedule, const std::vector<PassUnits>& units)
      : s_(schedule), units_(units), times_(schedule), result_{{}} {
    ZPLAN_ASSERT(static_cast<std::int32_t>(units.size()) == s_.chunks.size());
    result_.ranks.resize(s_.ranks.size());
  }

  ScheduleTime run() {
    for (std::int32_t rank = s_.chunks.ranks(); rank-- > 0;) awake_.push_back(rank);
    while (!awake_.empty()) {
      const std::int32_t rank = awake_.back();
      awake_.pop_back();
      while (step(rank)) {
      }
    }
    return result_;
  }

 private:
  bool step(std::int32_t rank) {
    RankTime& at = result_.ranks[static_cast<std::size_t>(rank)];
    const std::vector<Pass>& passes = s_.ranks[static_cast<std::size_t>(rank)].passes;
    if (at.done == passes.size()) return false;
    const Pass& pass = passes[at.done];
    std::int64_t ready = at.end;
    if (const auto input = input_of(s_.chunks, rank, pass)) {
      const std::int32_t from = s_.chunks.position(input->from.rank, input->from.chunk);
      const std::int64_t there = times_.at(input->forward, from, pass.micro);
      if (there == kNotYet) return false;
      ready = std::max(ready, there);
    }
    finish(rank, at, pass, ready);
    return true;
  }

  void finish(std::int32_t rank, RankTime& at, const Pass& pass, std::int64_t start) {
    const std::int32_t position = s_.chunks.position(rank, pass.chunk);
    const std::int64_t units = units_[static_cast<std::size_t>(position)].of(pass.kind);
    if (at.done == 0) at.start = start;
    at.end = start + units;
    at.busy += units;
    ++at.done;
    const bool forward = pass.kind == PassKind::kForward;
    if (!forward && !gives_input_gradient(pass.kind)) return;
    times_.at(forward, position, pass.micro) = at.end;
    const auto reader = reader_of(s_.chunks, rank, pass);
    if (reader && reader->rank != rank) awake_.push_back(reader->rank);
  }

  const PipelineSchedule& s_;
  const std::vector<PassUnits>& units_;
  Times times_;
  ScheduleTime result_;
  std::vector<std::int32_t> awake_;  // ranks whose next pass may have what it reads
};

}  // namespace

std::int64_t PassUnits::of(PassKind kind) const {
  std::int64_t sum = kind == PassKind::kForward ? forward : 0;
  if (gives_input_gradient(kind)) sum += input_backward;
  if (gives_weight_gradient(kind)) sum += weight_backward;
  return sum;
}

std::optional<PassInput> input_of(const ChunkMap& chunks, std::int32_t rank, const Pass& pass) {
  const auto from = neighbour(chunks, rank, pass, -1);
  if (!from) return std::nullopt;
  return PassInput{*from, pass.kind == PassKind::kForward};
}

std::optional<ChunkMap::Place> reader_of(const ChunkMap& chunks, std::int32_t rank,
                                         const Pass& pass) {
  return neighbour(chunks, rank, pass, 1);
}

std::int64_t ScheduleTime::makespan() const {
  std::int64_t last = 0;
  for (const RankTime& rank : ranks) last = std::max(last, rank.end);
  return last;
}

double ScheduleTime::idle(std::int32_t rank) const {
  const auto busy = static_cast<double>(ranks[static_cast<std::size_t>(rank)].busy);
  return 1 - busy / static_cast<double>(makespan());
}

double ScheduleTime::bubble() const {
  std::int64_t busy = 0;
  for (const RankTime& rank : ranks) busy = std::max(busy, rank.busy);
  return static_cast<double>(makespan() - busy) / static_cast<double>(busy);
}

ScheduleTime time_of(const PipelineSchedule& schedule, const std::vector<PassUnits>& units) {
  return Walk(schedule, units).run();
}

}  // namespace zplan
