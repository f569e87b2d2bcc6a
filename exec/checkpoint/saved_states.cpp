#include "exec/checkpoint/saved_states.h"

#include <algorithm>
#include <utility>

#include "exec/memory/initial_state.h"
#include "exec/memory/state_access.h"
#include "exec/memory/tensor_part.h"
#include "planner/program/instances/carried.h"
#include "planner/program/job/piece_axes.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec {
namespace {

// Whether no stage before this one has the instance of the unit.
bool is_first_stage(const Job& job, const RankClass& own, const Unit& unit, const UnitHome& home,
                    std::int64_t layer) {
  for (const RankClass& c : job.classes) {
    if (c.stage == own.stage) return true;
    for (const UnitHome& other : c.homes)
      if (other.unit == home.unit && (!unit.per_layer || c.index_of(layer))) return false;
  }
  return true;
}

// Whether the rank stands first along all axes but those along which pieces differ.
bool is_first_copy(const Job& job, const RankMemory& memory, const Unit& unit,
                   const StateHome& at) {
  AxisSet differ = at.shards | unit.experts | piece_axes(job.mesh, unit.experts);
  differ.add(job.mesh.pipeline());
  for (std::size_t axis = 0; axis < job.mesh.axes.size(); ++axis)
    if (!differ.has(axis) && memory.point()[axis] != 0) return false;
  return true;
}

class LayoutMaker {
 public:
  LayoutMaker(const Job& job, const RankMemory& memory) : job_(job), memory_(memory) {
    layout_.index.rank = memory.rank();
  }

  RankLayout make() {
    for (const UnitHome& home : memory_.rank_class().homes)
      for (const State state : kStates) add(home, state);
    const std::vector<Buffer>& buffers = memory_.rank_class().program.buffers;
    for (const BufferId id : carried_buffers(memory_.rank_class()))
      layout_.index.carried.push_back({place(id, 0, buffers[id].size()), buffers[id].name});
    return finished();
  }

  RankLayout make_weights() {
    for (const UnitHome& home : memory_.rank_class().homes) add(home, weight_state(home));
    return finished();
  }

 private:
  RankLayout finished() {
    layout_.index.bytes = {next_};
    return std::move(layout_);
  }

  void add(const UnitHome& home, State state) {
    const Unit& unit = job_.units[home.unit];
    const StateHome* const at = state_home(home, state);
    const bool is_param = state == State::kMaster && home.master.buffer == home.param.buffer;
    if (at == nullptr || is_param || !is_first_copy(job_, memory_, unit, *at)) return;
    for (const StatePiece& piece : state_pieces(job_, memory_, home, state)) {
      if (!is_first_stage(job_, memory_.rank_class(), unit, home, piece.layer)) continue;
      std::vector<Tensor> tensors = saved_tensors(unit, piece);
      if (tensors.empty()) continue;
      layout_.index.pieces.push_back({.at = place(piece.buffer, piece.slot, piece.bytes()),
                                      .state = state,
                                      .dtype = piece.dtype,
                                      .piece = piece.piece,
                                      .pieces = piece.pieces,
                                      .first = piece.first,
                                      .elements = piece.elements,
                                      .every = piece.every,
                                      .tensors = std::move(tensors)});
    }
  }

  SavedBytes place(BufferId buffer, std::int64_t slot, Bytes bytes) {
    const SavedBytes at{next_, bytes.value, 0};
    layout_.sources.push_back({buffer, slot, at});
    next_ += round_up(bytes, kIoAlignment).value;
    return at;
  }

  const Job& job_;
  const RankMemory& memory_;
  RankLayout layout_;
  std::int64_t next_ = 0;
};

struct LossScaleBuffers {
  double* clip;   // float64[2]
  double* state;  // float64[3]
};

// The kernel that makes the scalars of a step has them on the host.
std::optional<LossScaleBuffers> loss_scale_buffers(const RankMemory& memory) {
  const Program& program = memory.rank_class().program;
  for (const Node& node : program.nodes) {
    if (node.kind != OpKind::kKernel || node.kernel != KernelId::kStepScalars) continue;
    const auto views = program.operands(node);
    if (views.size() < 3) continue;
    const auto at = [&](std::size_t i) {
      return reinterpret_cast<double*>(memory.address(views[i], {}));
    };
    return LossScaleBuffers{at(1), at(2)};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Tensor> saved_tensors(const Unit& unit, const StatePiece& piece) {
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : unit.tensors) {
    const std::int64_t copy = piece.piece % (piece.pieces / tensor.blocks);  // of what is not cut
    if (tensor.split.kind == Split::Kind::kNone && copy != 0) continue;
    const std::int64_t end =
        tensor.offset + TensorPart(tensor, piece.piece, piece.pieces).elements();
    if (tensor.offset >= piece.first + piece.elements || end <= piece.first) continue;
    tensors.push_back(tensor);
    tensors.back().name = name_in_layer(tensor, piece.layer + tensor.member);
  }
  return tensors;
}

RankLayout saved_layout(const Job& job, const RankMemory& memory) {
  return LayoutMaker(job, memory).make();
}

RankLayout weight_layout(const Job& job, const RankMemory& memory) {
  return LayoutMaker(job, memory).make_weights();
}

State weight_state(const UnitHome& home) {
  return home.master.buffer == home.param.buffer ? State::kParam : State::kMaster;
}

std::optional<SavedLossScale> read_loss_scale(const RankMemory& memory) {
  const auto at = loss_scale_buffers(memory);
  if (!at || at->state[kScale] == 0) return std::nullopt;
  return SavedLossScale{at->state[kScale], at->state[kGoodSteps], at->state[kSkippedSteps],
                        at->clip[kClipFactor] < 0};
}

void write_loss_scale(const RankMemory& memory, const SavedLossScale& saved) {
  const auto at = loss_scale_buffers(memory);
  if (!at) return;
  at->state[kScale] = saved.scale;
  at->state[kGoodSteps] = saved.good_steps;
  at->state[kSkippedSteps] = saved.skipped_steps;
  at->clip[kClipFactor] = saved.overflowed ? -1 : 1;
}

}  // namespace zplan::exec
