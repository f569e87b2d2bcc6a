// A pipeline schedule as data: which passes each rank of the pipeline works off in one step, in
// which order. Generators make one (one_forward_one_backward.h ..), a file can hold one
// (planner/plan/schedule_file.h); lowering, in-flight counts and bubbles are derived from it.
//
// The model is cut into ranks x chunks consecutive pieces of layers; position p is the p-th of
// them. A rank holds as many chunks as every other rank, one in an ordinary pipeline.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zplan {

// The backward pass gives the gradients of a chunk's input and of its weights, either both at once
// or in two passes, the input first [Qi24 sec 2.1].
enum class PassKind : std::uint8_t { kForward, kBackward, kInputBackward, kWeightBackward };

// One pass of one micro-batch through one chunk of a rank.
struct Pass {
  PassKind kind = PassKind::kForward;
  // It does something that the other passes of its kind and chunk do not, so that no loop holds it
  // together with them: gradients are reduced after the last one.
  bool apart = false;
  std::int32_t chunk = 0;
  std::int32_t micro = 0;
  // A forward that is worked off together with the backward that follows it in the order: the
  // operations of both take turns.
  bool beside = false;
  // It is the other one of two micro-batches that one stage has in turns: what its layers leave is
  // kept in the reverse order, each layer in the place of one whose backward is done.
  bool reversed = false;
  friend bool operator==(const Pass&, const Pass&) = default;
};

// Whether the pass ends with the gradient of the chunk's input, or with that of its weights.
constexpr bool gives_input_gradient(PassKind kind) {
  return kind == PassKind::kBackward || kind == PassKind::kInputBackward;
}
constexpr bool gives_weight_gradient(PassKind kind) {
  return kind == PassKind::kBackward || kind == PassKind::kWeightBackward;
}

char letter(PassKind kind);                 // F, B, I, W, as in PyTorch's schedules
std::string text(const Pass& pass);         // "F0.3": kind, chunk, micro-batch
std::string description(const Pass& pass);  // "forward of micro-batch 3, chunk 0"

// Which piece of the model each chunk of each rank is.
class ChunkMap {
 public:
  struct Place {
    std::int32_t rank = 0, chunk = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  // positions[rank][chunk]; each rank has equally many and each position appears once.
  explicit ChunkMap(std::vector<std::vector<std::int32_t>> positions);

  std::int32_t ranks() const { return static_cast<std::int32_t>(positions_.size()); }
  std::int32_t chunks() const { return static_cast<std::int32_t>(positions_.front().size()); }
  std::int32_t size() const { return static_cast<std::int32_t>(places_.size()); }
  std::int32_t position(std::int32_t rank, std::int32_t chunk) const {
    return positions_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
  }
  Place at(std::int32_t position) const { return places_[static_cast<std::size_t>(position)]; }
  const std::vector<std::vector<std::int32_t>>& positions() const { return positions_; }

 private:
  std::vector<std::vector<std::int32_t>> positions_;
  std::vector<Place> places_;
};

// Chunk c of rank r is piece c * ranks + r [Narayanan21 sec 2.2.2].
ChunkMap looped_chunks(std::int32_t ranks, std::int32_t chunks);
// The same for even c; for odd c the ranks come in reverse order, so that neighbouring pieces lie
// on one rank where the direction turns [Qi24 sec 6].
ChunkMap v_shaped_chunks(std::int32_t ranks, std::int32_t chunks);

// What one rank does in a step.
struct PassOrder {
  std::vector<Pass> passes;
  // Passes before which a phase of the step begins (steady state, drain), ascending: no loop of the
  // folded form (fold.h) reaches over one.
  std::vector<std::size_t> cuts;

  void add(PassKind kind, std::int32_t chunk, std::int32_t micro) {
    passes.push_back({.kind = kind, .chunk = chunk, .micro = micro});
  }
  // A forward and the backward beside it.
  void add_both(const Pass& forward, const Pass& backward) {
    passes.push_back(forward);
    passes.back().beside = true;
    passes.push_back(backward);
  }
  void cut() { cuts.push_back(passes.size()); }
  // Returns whether one of two micro-batches takes the places of layers that the other is done
  // with.
  bool takes_turns() const { return std::ranges::any_of(passes, &Pass::reversed); }
};

// Cuts an order that says nothing of phases: before the last of the forwards that precede all
// backwards, and after the backward that follows the last forward.
void find_phases(PassOrder& order);

// The same passes so many times over, each time of the micro-batches that follow.
PassOrder in_rounds(const PassOrder& order, std::int32_t rounds);

// Sets `apart` of the last pass of each chunk that gives gradients of its weights, and of the last
// that gives one of its input. Where both are a whole backward, none may be out of turn.
void set_last_apart(PassOrder& order);
// The first whole backward that comes before weight gradients of an earlier pass through the chunk.
std::optional<Pass> out_of_turn(const PassOrder& order);

struct PipelineSchedule {
  ChunkMap chunks;
  std::int32_t micro_batches = 1;
  std::vector<PassOrder> ranks;
};

}  // namespace zplan
