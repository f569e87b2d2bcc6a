#include "planner/plan/plan_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "planner/core/text.h"
#include "planner/plan/decision.h"
#include "planner/plan/limits.h"
#include "planner/plan/schedule_file.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/schedule/double_buffered.h"
#include "planner/program/schedule/dual_pipe_v.h"
#include "planner/program/schedule/interleaved.h"
#include "planner/program/schedule/one_forward_one_backward.h"
#include "planner/program/schedule/weight_stashing.h"
#include "planner/program/schedule/zero_bubble_h1.h"
#include "planner/program/schedule/zero_bubble_v.h"

namespace zplan {
namespace {

using Reason = std::optional<std::string>;

struct ScheduleRow {
  Schedule schedule;
  std::string_view title;
  Range chunks;                    // of a stage
  bool parts_of_backward = false;  // some passes are of inputs or of weights only
  bool pairs_replicas = false;     // each pair of them is one pipeline in both directions
  bool across_steps = false;       // the last passes of a step come within the next one
  bool updates_each = false;       // a piece, after the backward of each micro-batch
  // At most so many micro-batches per stage are in flight [derived]; 0: all.
  double in_flight = 0;
  PassOrder (*order)(const Plan& plan, std::int32_t stage);
  ChunkMap (*pieces)(const Plan& plan);
  // What of the plan it does not go with.
  Reason (*fault)(const Plan& plan) = [](const Plan&) { return Reason(); };
};

// Those of a round.
std::int32_t micro_batches_of(const Plan& plan) {
  return static_cast<std::int32_t>(plan.micro_steps() / plan.parallel.flushes);
}

ChunkMap one_piece_each(const Plan& plan) { return looped_chunks(plan.parallel.pp, 1); }

// Rounds of more micro-batches than there are stages wait in a circle: a stage sends what its
// neighbour takes only once it has sent what this one waits for. Up to 2 (p - 1) micro-batches are
// all ahead, and nothing waits [derived].
Reason uneven_rounds(const Plan& plan) {
  const std::int32_t micros = micro_batches_of(plan), pp = plan.parallel.pp;
  if (micros % pp == 0 || micros <= 2 * (pp - 1)) return std::nullopt;
  return fmt::format(
      "schedule {} works off micro-steps in rounds of one per stage: with pp {} not {}; the next "
      "number that is: {}",
      name(plan.schedule), pp, micros, (micros + pp - 1) / pp * pp);
}

Reason too_few_to_pair(const Plan& plan) {
  const std::int32_t least = least_of_dual_pipe_v(plan.parallel.pp);
  if (micro_batches_of(plan) >= least) return std::nullopt;
  return fmt::format("schedule {} needs two micro-steps per stage: with pp {} at least {}, not {}",
                     name(plan.schedule), plan.parallel.pp, least, micro_batches_of(plan));
}

// A pair lies outside a group of experts and within what shares the sharded states.
Reason no_pairs(const Plan& plan) {
  if (Reason why = too_few_to_pair(plan)) return why;
  const std::string_view word = name(plan.schedule);
  const std::int32_t dp = plan.parallel.dp;
  const std::int32_t together = 2 * std::max(1, plan.parallel.expert_replicas());
  if (dp % together != 0)
    return fmt::format(
        "schedule {} takes micro-batches from both ends of pairs of replicas{}: dp is a "
        "multiple of {}, not {}; the nearest that is: {}",
        word, together > 2 ? ", which each share experts with others" : "", together, dp,
        nearest_multiple(dp, together));
  if (plan.shards() != plan.replicas() || plan.parameter_shards > 0 || plan.secondary > 0)
    return fmt::format("schedule {} shards over all replicas: it needs no groups of shards", word);
  return std::nullopt;
}

// A flush is what the schedule leaves out: no update may wait for the gradients of all stages.
Reason waits_for_all_stages(const Plan& plan) {
  const std::string_view word = name(plan.schedule);
  if (plan.loss_scaling)
    return fmt::format(
        "loss scaling looks for overflows in the gradients of all stages before the first update: "
        "schedule {} needs a kernel set in bf16 or f32, not {}",
        word, plan.kernel_set);
  if (plan.clip)
    return fmt::format(
        "clipping takes the norm of all stages before the first update: schedule {} goes without "
        "clipping only",
        word);
  return std::nullopt;
}

// Of a schedule without one, with so many stages.
Reason not_without_flush(const Plan& plan, std::int32_t stages) {
  const std::string_view word = name(plan.schedule);
  if (Reason why = waits_for_all_stages(plan)) return why;
  if (stages == 1) return fmt::format("schedule {} needs pp > 1: one stage has no bubble", word);
  if (micro_batches_of(plan) < stages)
    return fmt::format("schedule {} needs a micro-step per stage: with {} {} at least {}, not {}",
                       word, plan.parallel.pp > 1 ? "pp" : "chunks", stages, stages,
                       micro_batches_of(plan));
  if (plan.zero_stage > 1)
    return fmt::format("schedule {} keeps versions of whole parameters: ZeRO 0 or 1, not {}", word,
                       plan.zero_stage);
  if (plan.delayed_update || plan.overlap.optimizer)
    return fmt::format(
        "schedule {} updates each stage by itself after a backward: it goes with no delayed update "
        "and none beside backward",
        word);
  if (plan.placement.near(ModelState::kParameters) || plan.placement.near(ModelState::kGradients))
    return fmt::format(
        "schedule {} keeps versions of parameters and gradients in one home: their nearer shares "
        "are 0 with it",
        word);
  if (plan.dropout)
    return fmt::format(
        "schedule {} has backwards in the step after their forwards, which would draw other masks: "
        "it goes without dropout only",
        word);
  return std::nullopt;
}

Reason not_double_buffered(const Plan& plan) {
  if (Reason why = not_without_flush(plan, plan.parallel.pp)) return why;
  if (!plan.optimizer.row().matrices.orthogonal) return std::nullopt;
  return fmt::format(
      "schedule {} updates a step late, as a delayed update does, which {} has not: adamw, "
      "adamw-8bit and sgd do",
      name(plan.schedule), plan.optimizer.row().word);
}

// One stage of several chunks trains what so many stages do. An update is of a micro-batch of each
// replica, which have a scale each where operands have one: no one rank trains the same.
Reason not_stashing(const Plan& plan) {
  const std::int32_t pp = plan.parallel.pp, chunks = std::max(1, plan.parallel.chunks);
  if (Reason why = not_without_flush(plan, pp > 1 ? pp : chunks)) return why;
  if (find_kernel_set(plan.kernel_set).rounds_whole && plan.parallel.dp > 1)
    return fmt::format(
        "schedule {} makes an update of a micro-batch of each replica, and {} gives each of these "
        "a scale of its own: dp 1, not {}",
        name(plan.schedule), plan.kernel_set, plan.parallel.dp);
  if (pp == 1 || chunks == 1) return std::nullopt;
  return fmt::format("schedule {} has one chunk per stage where there are several, not {}",
                     name(plan.schedule), chunks);
}

// The file's, read once.
const PipelineSchedule& file_of(const Plan& plan) {
  static std::mutex mutex;
  static std::map<std::string, PipelineSchedule> known;
  const std::lock_guard lock(mutex);
  auto at = known.find(plan.schedule_file);
  if (at == known.end())
    at = known.emplace(plan.schedule_file, load_schedule(plan.schedule_file)).first;
  return at->second;
}

// Transfers go to the next stage and the one before, the last stage and the first among them. A
// tied embedding is summed over the first stage and the last.
Reason impassable(const ChunkMap& pieces) {
  const std::int32_t last = pieces.ranks() - 1;
  for (std::int32_t piece = 1; piece < pieces.size(); ++piece) {
    const std::int32_t from = pieces.at(piece - 1).rank, to = pieces.at(piece).rank;
    const std::int32_t step = std::abs(to - from);
    if (step > 1 && step < last)
      return fmt::format(
          "piece {} of the model is on stage {} and piece {} on stage {}: "
          "neighbouring pieces need neighbouring stages",
          piece - 1, from, piece, to);
  }
  const std::int32_t end = pieces.at(pieces.size() - 1).rank;
  if (pieces.at(0).rank == 0 && (end == 0 || end == last)) return std::nullopt;
  return fmt::format(
      "the first piece of the model is on stage {} and the last on stage {}: "
      "expected stage 0, and stage 0 or {}",
      pieces.at(0).rank, end, last);
}

Reason wrong_file(const Plan& plan) {
  if (plan.schedule_file.empty()) return "schedule file needs the path of one";
  const PipelineSchedule& file = file_of(plan);
  if (file.chunks.ranks() != plan.parallel.pp || file.micro_batches != plan.micro_steps())
    return fmt::format("{} is of {} stages and {} micro-batches; the plan has pp {} and {}",
                       plan.schedule_file, file.chunks.ranks(), file.micro_batches,
                       plan.parallel.pp, plan.micro_steps());
  for (const PassOrder& stage : file.ranks)
    if (const auto pass = out_of_turn(stage))
      return fmt::format(
          "{}: {} is not in two parts and comes before weights of an earlier one: write it as I "
          "and W",
          plan.schedule_file, text(*pass));
  const std::int32_t chunks = plan.parallel.chunks;
  if (chunks != 0 && chunks != file.chunks.chunks())
    return fmt::format("{} has {} chunks per stage, not {}", plan.schedule_file,
                       file.chunks.chunks(), chunks);
  return impassable(file.chunks);
}

const ScheduleRow& row_of(const Plan& plan);

std::int32_t chunks_of(const Plan& plan) {
  const std::int32_t chunks = plan.parallel.chunks;
  if (plan.schedule == Schedule::kFile && !plan.schedule_file.empty())
    return file_of(plan).chunks.chunks();
  return chunks == 0 ? static_cast<std::int32_t>(row_of(plan).chunks.min) : chunks;
}

constexpr ScheduleRow kRows[] = {
    {.schedule = Schedule::kOneForwardOneBackward,
     .title = "1F1B",
     .chunks = {1, 1},
     .in_flight = 1,
     .order =
         [](const Plan& plan, std::int32_t stage) {
           if (plan.overlap.exchange) return one_stage_in_turns(micro_batches_of(plan));
           return one_forward_one_backward_order(stage, plan.parallel.pp, micro_batches_of(plan));
         },
     .pieces = one_piece_each},
    {.schedule = Schedule::kGpipe,
     .title = "GPipe",
     .chunks = {1, 1},
     .order = [](const Plan& plan, std::int32_t) { return gpipe_order(micro_batches_of(plan)); },
     .pieces = one_piece_each},
    {.schedule = Schedule::kInterleaved,
     .title = "interleaved 1F1B",
     .chunks = {2, kMaxChunks},
     .in_flight = 2,  // p v + p - 1 chunks of L / (p v) layers
     .order =
         [](const Plan& plan, std::int32_t stage) {
           return interleaved_order(stage, plan.parallel.pp, chunks_of(plan),
                                    micro_batches_of(plan), plan.overlap.exchange);
         },
     .pieces = [](const Plan& plan) { return looped_chunks(plan.parallel.pp, chunks_of(plan)); },
     .fault = uneven_rounds},
    {.schedule = Schedule::kZeroBubbleV,
     .title = "ZB-V",
     .chunks = {2, 2},
     .parts_of_backward = true,
     .in_flight = 4,  // 2 p chunks of L / (2 p) layers, and what one part of backward leaves
     .order =
         [](const Plan& plan, std::int32_t stage) {
           return zero_bubble_v_order(stage, plan.parallel.pp, micro_batches_of(plan));
         },
     .pieces = [](const Plan& plan) { return v_shaped_chunks(plan.parallel.pp, 2); }},
    {.schedule = Schedule::kZeroBubbleH1,
     .title = "ZB-H1",
     .chunks = {1, 1},
     .parts_of_backward = true,
     .in_flight = 2,  // p, and as many that one part of backward leaves
     .order =
         [](const Plan& plan, std::int32_t stage) {
           return zero_bubble_h1_order(stage, plan.parallel.pp, micro_batches_of(plan));
         },
     .pieces = one_piece_each},
    {.schedule = Schedule::kDualPipeV,
     .title = "DualPipeV",
     .chunks = {2, 2},
     .parts_of_backward = true,
     .in_flight = 4,  // 2 p + 1 chunks of L / (2 p) layers, and what one part of backward leaves
     .order =
         [](const Plan& plan, std::int32_t stage) {
           return dual_pipe_v_order(stage, plan.parallel.pp, micro_batches_of(plan),
                                    plan.overlap.exchange);
         },
     .pieces = [](const Plan& plan) { return v_shaped_chunks(plan.parallel.pp, 2); },
     .fault = too_few_to_pair},
    {.schedule = Schedule::kDualPipe,
     .title = "DualPipe",
     .chunks = {2, 2},
     .parts_of_backward = true,
     .pairs_replicas = true,
     .in_flight = 4,  // as DualPipeV
     .order =
         [](const Plan& plan, std::int32_t stage) {
           return dual_pipe_v_order(stage, plan.parallel.pp, micro_batches_of(plan),
                                    plan.overlap.exchange);
         },
     .pieces = [](const Plan& plan) { return v_shaped_chunks(plan.parallel.pp, 2); },
     .fault = no_pairs},
    {.schedule = Schedule::kDoubleBuffered,
     .title = "PipeDream-2BW",
     .chunks = {1, 1},
     .across_steps = true,
     .in_flight = 3,  // at most p at once, in rings of as many slots as the step divides into
     .order =
         [](const Plan& plan, std::int32_t stage) {
           return double_buffered_order(stage, plan.parallel.pp, micro_batches_of(plan));
         },
     .pieces = one_piece_each,
     .fault = not_double_buffered},
    {.schedule = Schedule::kWeightStashing,
     .title = "PipeDream",
     .chunks = {1, kMaxChunks},
     .across_steps = true,
     .updates_each = true,
     .in_flight = 3,  // as PipeDream-2BW
     .order =
         [](const Plan& plan, std::int32_t stage) {
           if (plan.parallel.pp == 1)
             return one_by_one_order(chunks_of(plan), micro_batches_of(plan));
           return double_buffered_order(stage, plan.parallel.pp, micro_batches_of(plan));
         },
     .pieces = [](const Plan& plan) { return looped_chunks(plan.parallel.pp, chunks_of(plan)); },
     .fault = not_stashing},
    {.schedule = Schedule::kFile,
     .title = "from a file",
     .chunks = {1, kMaxChunks},
     .order =
         [](const Plan& plan, std::int32_t stage) {
           return file_of(plan).ranks[static_cast<std::size_t>(stage)];
         },
     .pieces = [](const Plan& plan) { return file_of(plan).chunks; },
     .fault = wrong_file},
};
static_assert(std::size(kRows) == kWordsOf<Schedule>.size());

const ScheduleRow& row_of(const Plan& plan) {
  return kRows[static_cast<std::size_t>(plan.schedule)];
}

std::string chunks_text(const Range& chunks) {
  if (chunks.max == 1) return "one chunk";
  if (chunks.min == chunks.max) return fmt::format("{} chunks", chunks.min);
  return fmt::format("{} to {} chunks", chunks.min, chunks.max);
}

Reason wrong_chunks(const Plan& plan) {
  const Range& range = row_of(plan).chunks;
  const std::int32_t chunks = chunks_of(plan);
  if (chunks < range.min || chunks > range.max)
    return fmt::format("schedule {} has {} per stage, not {}", name(plan.schedule),
                       chunks_text(range), chunks);
  if (chunks > 1 && plan.parallel.pp == 1 && !row_of(plan).updates_each)
    return fmt::format("{} chunks per stage need pp > 1", chunks);
  return std::nullopt;
}

// Whether the way through the stages turns: neighbouring pieces are of one stage.
bool turns(const ChunkMap& pieces) {
  for (std::int32_t piece = 1; piece < pieces.size(); ++piece)
    if (pieces.at(piece).rank == pieces.at(piece - 1).rank) return true;
  return false;
}

Reason wrong_flushes(const Plan& plan) {
  const std::int32_t flushes = plan.parallel.flushes;
  if (flushes == 1) return std::nullopt;
  if (plan.parallel.pp == 1)
    return fmt::format("{} rounds of a pipeline need pp > 1: one stage has no bubble", flushes);
  if (plan.schedule == Schedule::kFile || row_of(plan).across_steps)
    return fmt::format("schedule {} has one round in a step, not {}", name(plan.schedule), flushes);
  std::int64_t even = std::min<std::int64_t>(flushes, plan.micro_steps());
  while (plan.micro_steps() % even != 0) --even;
  if (even == flushes) return std::nullopt;
  return fmt::format("{} rounds do not cut {} micro-steps evenly; {} would", flushes,
                     plan.micro_steps(), even);
}

// Pieces at the ends of the model may have none.
Reason no_layers(const Plan& plan) {
  if (plan.stage_layers.empty() || chunks_of(plan) == 1) return std::nullopt;
  const ChunkMap map = pieces_of(plan);
  for (const std::vector<std::int32_t>& pieces : map.positions()) {
    const bool any = std::any_of(pieces.begin(), pieces.end(), [&](std::int32_t piece) {
      return plan.layers_of_piece(0, piece) > 0;
    });
    if (!any)
      return fmt::format("pieces {} of the model are one stage, which needs a layer",
                         joined(pieces, " and "));
  }
  return std::nullopt;
}

Reason wrong_activations(const Plan& plan) {
  const bool replays =
      std::any_of(plan.recompute.begin(), plan.recompute.end(),
                  [](const RecomputeRun& run) { return run.mode >= Recompute::kFull; });
  if (replays && has_parts_of_backward(plan))
    return fmt::format(
        "schedule {} takes the gradients of weights from what forward left: it needs recompute "
        "none or selective",
        name(plan.schedule));
  const bool away = plan.partition_activations || plan.placement.activations != Tier::kGpu;
  const bool twice = chunks_of(plan) > 1 && turns(pieces_of(plan));
  if (away && (twice || has_parts_of_backward(plan)))
    return fmt::format("schedule {} keeps the inputs of layers whole and on gpu",
                       name(plan.schedule));
  return std::nullopt;
}

}  // namespace

std::string_view title(Schedule schedule) {
  return kRows[static_cast<std::size_t>(schedule)].title;
}

bool has_parts_of_backward(const Plan& plan) {
  if (plan.schedule != Schedule::kFile) return row_of(plan).parts_of_backward;
  const std::vector<PassOrder>& stages = file_of(plan).ranks;
  return std::any_of(stages.begin(), stages.end(), [](const PassOrder& stage) {
    return std::any_of(stage.passes.begin(), stage.passes.end(),
                       [](const Pass& pass) { return pass.kind == PassKind::kInputBackward; });
  });
}

std::int32_t Plan::pieces() const { return parallel.pp * chunks_of(*this); }

Reason schedule_fault(const Plan& plan) {
  if (Reason why = wrong_flushes(plan)) return why;
  if (Reason why = row_of(plan).fault(plan)) return why;
  if (Reason why = wrong_chunks(plan)) return why;
  if (Reason why = no_layers(plan)) return why;
  return wrong_activations(plan);
}

ChunkMap pieces_of(const Plan& plan) { return row_of(plan).pieces(plan); }

PassOrder order_of_stage(const Plan& plan, std::int32_t stage) {
  return in_rounds(row_of(plan).order(plan, stage), plan.parallel.flushes);
}

bool reaches_across_steps(const Plan& plan) {
  return row_of(plan).across_steps && plan.parallel.pp > 1;
}

bool pairs_replicas(const Plan& plan) { return row_of(plan).pairs_replicas; }

bool updates_each_micro_batch(const Plan& plan) { return row_of(plan).updates_each; }

std::int32_t older_versions(const Plan& plan, std::int32_t stage) {
  if (!reaches_across_steps(plan)) return 0;
  if (!updates_each_micro_batch(plan)) return 1;
  return stash_slots(stage, plan.parallel.pp, micro_batches_of(plan));
}

std::int32_t held_gradients(const Plan& plan) {
  if (!updates_each_micro_batch(plan) || plan.parallel.pp > 1) return 1;
  return gradient_slots(chunks_of(plan), micro_batches_of(plan));
}

InFlight kept_in_flight(const Plan& plan, std::int32_t stage, const PassOrder& order,
                        std::int32_t chunk) {
  if (!reaches_across_steps(plan)) return forward_to_backward(order.passes, chunk);
  return double_buffered_in_flight(stage, plan.parallel.pp, micro_batches_of(plan));
}

bool ends_in_order(const Plan& plan) {
  return chunks_of(plan) == 1 && !has_parts_of_backward(plan) && !reaches_across_steps(plan);
}

namespace {

bool weights_come_between(const std::vector<Pass>& passes, std::int32_t chunk) {
  const auto first = std::find_if(passes.begin(), passes.end(), [](const Pass& pass) {
    return pass.kind == PassKind::kWeightBackward;
  });
  return std::any_of(first, passes.end(), [&](const Pass& pass) {
    return pass.chunk == chunk && pass.kind == PassKind::kInputBackward;
  });
}

}  // namespace

StagePieces in_flight_of_stages(const Plan& plan) {
  const ChunkMap pieces = pieces_of(plan);
  StagePieces stages;
  for (std::int32_t stage = 0; stage < pieces.ranks(); ++stage) {
    const PassOrder order = order_of_stage(plan, stage);
    std::vector<PieceInFlight>& own = stages.emplace_back();
    for (std::int32_t chunk = 0; chunk < pieces.chunks(); ++chunk)
      own.push_back({pieces.position(stage, chunk),
                     order.takes_turns() ? 1 : kept_in_flight(plan, stage, order, chunk).span,
                     weights_come_between(order.passes, chunk)});
  }
  return stages;
}

double most_in_flight(const Plan& plan) {
  const double all = micro_batches_of(plan);
  const double factor = row_of(plan).in_flight;
  // A stage with two micro-batches in turns has one more.
  const double in_turns = plan.overlap.exchange && plan.parallel.pp == 1 ? 1 : 0;
  return factor == 0 ? all : std::min(all, factor * plan.parallel.pp + in_turns);
}

}  // namespace zplan
