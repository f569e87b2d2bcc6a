#include "exec/schedule/rank.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "exec/offload/slab_file.h"
#include "planner/core/error.h"
#include "planner/program/job/collectives.h"

namespace zplan::exec {
namespace {

// The steady clock ticks in nanoseconds.
SimTime since(TimePoint start, TimePoint moment) {
  constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(moment - start);
  return SimTime{elapsed.count() * kPicosecondsPerNanosecond};
}

void copy(const Rank& rank, Lane lane, const Operand& from, const Operand& to) {
  const Bytes bytes = from.view->bytes();
  const SlabFile* file = rank.memory->file();
  if (from.data != nullptr && to.data != nullptr) return rank.backend->copy(lane, from, to);
  file->check_intact();
  if (from.data == nullptr) return rank.reader->read(*file, from.offset, bytes, to.data);
  rank.writer->write(*file, to.offset, bytes, from.data);
}

// Whether the rank has the index in the node's group that the node names; in no group all have it.
bool is_member(const Rank& rank, const Node& node) {
  if (node.group.axes.empty()) return true;
  return rank.memory->mesh().index_in(node.group.axes, rank.memory->point()) == node.member;
}

}  // namespace

BoundOperands::BoundOperands(const Rank& rank, const Instance& at) {
  for (const View& view : rank.program().operands(rank.node(at)))
    operands_[count_++] = {&view, rank.memory->address(view, at.env),
                           rank.memory->offset(view, at.env)};
}

std::span<const Operand> touched(const Rank& rank, const Node& node,
                                 const BoundOperands& operands) {
  const std::span<const Operand> all = operands.all();
  if (node.kind == OpKind::kMark) return {};
  const bool meets = node.kind == OpKind::kCollective;
  if (meets && !has_root(node.collective)) return all;
  if (is_member(rank, node)) return all;
  if (!meets) return {};
  return is_of_root(row_of(node.collective).input) ? all.subspan(1) : all.first(1);
}

bool is_skipped(const RunState& state, const Rank& rank, NodeIndex node, std::int64_t run_step) {
  return state.services.validates(run_step) && !rank.makes_loss[node];
}

bool goes_on(RunState& state, const LaneRun& lane) {
  const Instance& at = *lane.cursor;
  const bool changes_state =
      lane.rank->changes_state[at.node] && !is_skipped(state, *lane.rank, at.node, at.step());
  return state.gate.goes_on(at.step(), changes_state);
}

void execute_local(RunState& state, const Rank& rank, const Instance& at, std::int64_t run_step,
                   const BoundOperands& operands) {
  const Node& node = rank.node(at);
  if (!is_member(rank, node)) return;
  if (node.kind == OpKind::kCopy) return copy(rank, node.lane, operands[0], operands[1]);
  if (node.kind == OpKind::kMark) return;
  ZPLAN_ASSERT(node.kind == OpKind::kKernel);
  KernelCall call;
  call.node = &node;
  call.operands = operands.all();
  call.attributes = resolve(rank.program().attributes_of(node), rank.memory->point());
  call.env = at.env;
  // That of its unit, where an iteration goes through several.
  call.env.layer += node.member / rank.program().unit_layers;
  call.step = state.services.steps()[run_step].step;
  call.run_step = run_step;
  call.rank = rank.number;
  call.services = &state.services;
  rank.backend->run_kernel(call);
}

CollectiveCall collective_call(const Rank& rank, const Node& node, const BoundOperands& operands) {
  const std::int64_t members = rank.memory->mesh().size(node.group);
  return {.kind = node.collective,
          .dtype = operands[0].view->dtype,
          .elements = operands[0].elements() / parts_of(row_of(node.collective).input, members),
          .input = operands[0].data,
          .output = operands[1].data,
          .root = has_root(node.collective) ? node.member : 0};
}

void record_span(const RunState& state, LaneRun& lane, OpId op, std::int64_t step,
                 const Times& times) {
  lane.spans.push_back({.op = op,
                        .step = static_cast<std::int32_t>(step),
                        .lane = lane.lane,
                        .ready = since(state.start, times.ready),
                        .start = since(state.start, times.start),
                        .end = since(state.start, times.end)});
}

namespace {

// An operation of a step that trains.
void observe(RunState& state, LaneRun& lane, const BoundOperands& operands, const Times& times) {
  const Instance& at = *lane.cursor;
  const std::int64_t step = state.services.steps()[at.step()].trained;
  const std::chrono::nanoseconds busy = times.end - times.start;
  lane.step_ns += busy.count();
  if (step > 0) {
    LaneRun::Busy& all = lane.busy[static_cast<std::size_t>(at.lane_sequence % lane.nodes)];
    all.ns += busy.count();
    ++all.times;
  }
  if (state.options->record_timeline) {
    const OpId op = op_id(lane.rank->program(), lane.node(), at.env);
    record_span(state, lane, op, step, times);
  }
  if (state.options->observer) {
    state.options->observer({.rank = lane.rank->number,
                             .program = &lane.rank->program(),
                             .node = at.node,
                             .env = at.env,
                             .step = step,
                             .operands = operands.all()});
  }
}

}  // namespace

void complete(RunState& state, LaneRun& lane, const BoundOperands& operands, const Times& times) {
  const Instance& at = *lane.cursor;
  state.pulse.count(times.end);
  if (!state.services.validates(at.step())) observe(state, lane, operands, times);
  if (!lane.ends_step()) return;
  const std::chrono::nanoseconds busy(std::exchange(lane.step_ns, 0));
  if (lane.lane == Lane::kCompute) state.log.computed(at.step(), busy);
  state.log.lane_done(at.step(), times.end);
}

std::string describe(const Rank& rank, const Instance& at) {
  return fmt::format("rank {}: {}", rank.number,
                     op_name(op_id(rank.program(), rank.node(at), at.env)));
}

}  // namespace zplan::exec
