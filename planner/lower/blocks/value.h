// What the forward of a layer leaves for later, as its blocks state it, each named by a handle that
// its block keeps. Where a value stays, and for how long, is decided in activations.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/lower/blocks/handle.h"
#include "planner/plan/plan.h"
#include "planner/program/job/program.h"

namespace zplan {

// Read by backward; read by backward but dropped by selective recomputation, too; dead when the
// forward of its layer has ended; or a gradient that is there when backward comes to the activation
// function.
enum class Life : std::uint8_t { kBackward, kSelective, kForward, kGradient };

// What of a backward reads a value: all of it, at most what comes before the activation function,
// or nothing but a replay; of gradients, where backward comes to another activation function.
enum class Read : std::uint8_t { kLate, kFirst, kNever };

struct ValueSpec {
  std::string name;
  Shape shape;  // of one tile where there is one for each
  DType dtype = DType::kF32;
  OperatorSet of{};  // whose replay gives it, any of them; none: the whole layer's alone
  bool tiled = false;
  Life life = Life::kBackward;
  Read in_backward = Read::kLate;
};

// Names a value; false: there is none.
using Value = Handle<ValueSpec>;

// In the order in which their buffers are made.
class Values {
 public:
  Value add(ValueSpec spec) {
    spec.name = prefix_ + spec.name;
    specs_.push_back(std::move(spec));
    return Value(specs_.size() - 1);
  }
  // What the names of values that are added next begin with.
  void begin(std::string prefix) { prefix_ = std::move(prefix); }
  // States a gradient. It has no view: backward makes it.
  ValueSpec gradient(ValueSpec spec) {
    spec.life = Life::kGradient;
    return specs_.emplace_back(std::move(spec));
  }
  const std::vector<ValueSpec>& specs() const { return specs_; }
  // The type that the layer computes in: that of the first norm.
  DType dtype() const { return specs_.front().dtype; }

 private:
  std::vector<ValueSpec> specs_;
  std::string prefix_;
};

// A view of each, by its index; empty of what is not there.
using ValueViews = std::vector<View>;

}  // namespace zplan
