#include "planner/lower/checkpoints.h"

#include <fmt/format.h>

#include <utility>

namespace zplan {
namespace {

// Compute fills one slot while the copy of the other is on its way. [derived]
constexpr std::int32_t kCheckpointSlots = 2;

}  // namespace

CheckpointBuffers::CheckpointBuffers(const Sizes& sizes)
    : dtype(sizes.compute()),
      tokens(sizes.tokens()),
      local_tokens(sizes.local_tokens()),
      hidden(sizes.h()),
      together(sizes.plan.checkpoint_layers),
      parts(sizes.plan.partition_activations ? sizes.tp() : 1),
      tier(sizes.plan.placement.activations),
      category(sizes.plan.all_full() ? Category::kCheckpoints : Category::kActivations) {}

Shape CheckpointBuffers::kept() const {
  return {parts > 1 ? tokens / parts : local_tokens, hidden};
}

Declared CheckpointBuffers::inputs(bool away) const {
  Declared result =
      declared({.name = "layer_input", .shape = {local_tokens, hidden}, .dtype = dtype},
               away ? kCheckpointSlots : 1, away ? Per::kLastStage : Per::kInputInFlight,
               away ? Lives::kToHead : Lives::kToBackward);
  result.buffer.category = category;
  return result;
}

Declared CheckpointBuffers::checkpoint(std::string name, const Shape& shape, Lives lives) const {
  const bool is_home = lives == Lives::kIntoBackward;
  Declared result =
      declared({.name = std::move(name), .shape = shape, .dtype = dtype},
               is_home ? 1 : kCheckpointSlots, is_home ? Per::kLayerInFlight : Per::kStage, lives);
  result.buffer.category = Category::kCheckpoints;
  return result;
}

Declared CheckpointBuffers::replayed(std::int32_t layers) const {
  return declared({.name = "replay.input", .shape = {local_tokens, hidden}, .dtype = dtype}, layers,
                  Per::kStage, Lives::kInputs);
}

Declared CheckpointBuffers::home() const {
  Declared result = checkpoint("checkpoint", kept(), Lives::kIntoBackward);
  result.buffer.tier = tier;
  return result;
}

Declared CheckpointBuffers::loaded() const {
  return checkpoint("checkpoint.loaded", kept(), parts > 1 ? Lives::kBriefly : Lives::kInputs);
}

Declared CheckpointBuffers::gathered() const {
  return checkpoint("checkpoint.gathered", {tokens, hidden}, Lives::kInputs);
}

void CheckpointBuffers::declare(const Declare& declare) const {
  declare(inputs(go_away()));
  if (together > 1) declare(replayed(together - 1));
  if (!go_away()) return;
  declare(home());
  if (tier != Tier::kGpu) declare(loaded());
  if (parts > 1) declare(gathered());
}

Checkpoints::Checkpoints(Stage& stage, const Chunk& chunk, KeepsInputs keeps)
    : s_(stage),
      chunk_(chunk),
      buffers_(stage),
      keeps_(keeps == KeepsInputs::kYes),
      transfers_(stage) {
  const bool away = keeps_ && chunk.layers > 0 && buffers_.go_away();
  const bool in_ring = away || !keeps_;
  const std::int32_t all = shares_places() ? last_place() + 1 : inputs() * chunk.in_flight;
  boundary_ = s_.out.add(buffers_.inputs(in_ring).times(in_ring ? 1 : all, chunk.prefix()));
  if (away) away_ = s_.out.add(buffers_.home().times(count() * chunk.in_flight, chunk.prefix()));
}

bool Checkpoints::shares_places() const {
  return !away_ && buffers_.together == 1 && chunk_.modules == 0 &&
         s_.shares_places(chunk_, {.first_unit = chunk_.first_layer / s_.unit_layers(),
                                   .units = chunk_.layers / s_.unit_layers()});
}

View Checkpoints::boundary(std::int32_t shift) const {
  SlotExpr slot = saved().slot();
  slot.base += shift + s_.module;
  slot.per_micro = !stay() || shares_places() ? 0 : inputs();
  if (shares_places() && s_.reversed) {
    slot.base = last_place() - slot.base;
    slot.per_layer = -slot.per_layer;
  }
  return view_of(boundary_, s_.compute(), {s_.local_tokens(), s_.h()}, slot);
}

View Checkpoints::between(const char* pass, std::int32_t member) const {
  Buffer buffer = buffers_.replayed(1).buffer;
  buffer.name = fmt::format("member{}.{}input", member, pass);
  return view_of(s_.body.get(std::move(buffer)), s_.compute(), {s_.local_tokens(), s_.h()});
}

View Checkpoints::input() const {
  return has_input() ? boundary(0) : between("forward.", s_.replay_member());
}

View Checkpoints::output() const {
  return has_output() ? boundary(1) : between("forward.", s_.replay_member() + 1);
}

View Checkpoints::input_of(std::int32_t layer) const {
  View v = boundary(layer / buffers_.together);
  v.slot.per_layer = 0;
  return v;
}

View Checkpoints::home() const {
  SlotExpr slot = saved().slot();
  slot.per_micro = count();
  return view_of(*away_, s_.compute(), buffers_.kept(), slot);
}

Ordinal Checkpoints::saved() const {
  const std::int32_t together = buffers_.together;
  return {(s_.out.member() - s_.replay_member() - chunk_.first_layer) / together,
          s_.unit_layers() / together};
}

Ordinal Checkpoints::loaded() const {
  const Ordinal from_first = saved();
  return {count() - 1 - from_first.base, -from_first.per_layer};
}

void Checkpoints::save() {
  if (!away_ || !has_input()) return;
  View part = input();
  if (s_.plan.partition_activations) {
    part.shape = buffers_.kept();
    part = s_.own_part(part, s_.tensor_group().axes);
  }
  if (transfers_.tier_of(home()) == Tier::kGpu) {
    s_.out.copy({Phase::kForward, Part::kBoundary, Action::kMove}, part, home());
  } else {
    transfers_.send(Phase::kForward, Part::kBoundary, part, home(),
                    ring_of("checkpoint.saved", buffers_.loaded()), saved());
  }
}

View Checkpoints::load() {
  if (!away_) return input();
  const View part = transfers_.bring(Phase::kRecompute, Part::kBoundary, home(), Tier::kGpu,
                                     ring_of("checkpoint.loaded", buffers_.loaded()), loaded());
  if (!s_.plan.partition_activations) return part;
  const Shape whole{s_.tokens(), s_.h()};
  const BufferId id = s_.body.get(buffers_.gathered().buffer);
  const View result = view_of(id, s_.compute(), whole, loaded().slot());
  s_.out.collective({Phase::kRecompute, Part::kBoundary, Action::kGatherRanks}, Lane::kCommTensor,
                    CollectiveKind::kAllGather, s_.tensor_group(), part, result);
  return result;
}

}  // namespace zplan
