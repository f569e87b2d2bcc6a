// What the parts of a step say of their buffers before there is a Program: lower makes the buffers
// from it, and bounds on bytes are sums of it. A part has a struct of the decisions that its
// buffers follow, and nothing but these and the layout decides what that struct declares.
#pragma once

#include <functional>
#include <string>

#include "planner/lower/blocks/value.h"
#include "planner/lower/layout.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

// What a stage has the declared slots for, each time.
enum class Per : std::uint8_t {
  kUnit,           // each iteration of its layer loops
  kFirstStage,     // once, if it has the first piece of the model,
  kLastStage,      // if it has the last,
  kBothEnds,       // or if it has one of both
  kStage,          // once
  kLayerInFlight,  // each layer, or those with one checkpoint, and micro-batch between its forward
                   // and its backward
  kInputInFlight,  // the same, with the output of each chunk's last layer
  kHeadInFlight,   // each such micro-batch of the chunk with the last piece
  // Each iteration whose parameters are nearer (StatePlacement), each of the others; the same of
  // gradients and of optimizer states.
  kNearParameters,
  kFarParameters,
  kNearGradients,
  kFarGradients,
  kNearOptimizer,
  kFarOptimizer,
};
constexpr Per near_unit(ModelState state) {
  return static_cast<Per>(static_cast<int>(Per::kNearParameters) + 2 * static_cast<int>(state));
}
constexpr Per far_unit(ModelState state) {
  return static_cast<Per>(static_cast<int>(near_unit(state)) + 1);
}
static_assert(far_unit(ModelState::kOptimizer) == Per::kFarOptimizer);
constexpr Per per(Held held) { return static_cast<Per>(held); }
static_assert(per(Held::kByLayer) == Per::kUnit && per(Held::kFirstStage) == Per::kFirstStage &&
              per(Held::kLastStage) == Per::kLastStage && per(Held::kBothEnds) == Per::kBothEnds);

// When all of its bytes are held.
enum class Lives : std::uint8_t {
  kStep,          // always
  kToUpdate,      // from the backward that fills it to the update
  kToBackward,    // from forward to backward
  kIntoBackward,  // from forward to where a layer's backward comes to the activation function
  kInputs,        // while it comes there, for the gradients of inputs,
  kWeights,       // or while those of weights are made
  kHead,          // while the gradient of the logits becomes that of the last layer's output,
  kToHead,        // where no pass of another micro-batch comes before,
  kToHeadApart,   // or where some do
  kBriefly,       // at no moment that others are known to share
};

struct Declared {
  Buffer buffer;  // slots: for one of what it is per; the size of a slot is not rounded
  Per per = Per::kStage;
  Lives lives = Lives::kBriefly;

  // The buffer where a stage has so many of that.
  Buffer times(std::int32_t count, const std::string& prefix = {}) const;
};
using Declare = std::function<void(Declared)>;

// A tensor in each slot.
Declared declared(const ValueSpec& value, std::int32_t slots, Per per, Lives lives);

// Scratch of the compute lane.
Declared workspace_of(const KernelSet& kernels);

// A state of the model: of each unit its flat elements or an equal part of them.
struct StateBuffer {
  std::string prefix;  // of its name
  DType dtype = DType::kF32;
  std::int32_t shards = 1;
  Tier tier = Tier::kGpu;
  Category category = Category::kParameters;
  Lives lives = Lives::kStep;
  std::int32_t every = 1;  // flat elements that it has one element for
};
Declared declared(const StateBuffer& state, const Layout& layout, UnitIndex unit);

// What units are worked on in, whole: those of the layers share one ring, "layer", any other has a
// buffer of its own, one that comes in tiles a ring of them.
struct UnitBuffer {
  std::string prefix;
  DType dtype = DType::kF32;
  std::int32_t slots = 1;        // of rings
  Lives lives = Lives::kInputs;  // of the layers' ring
  std::int32_t every = 1;        // flat elements that it has one element for
};
// `own_name`: of a buffer of its own.
Declared declared(const UnitBuffer& buffer, const Layout& layout, UnitIndex unit,
                  std::string_view own_name);

}  // namespace zplan
