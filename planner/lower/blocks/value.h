// What the forward of a layer leaves for later, as its blocks state it, each named by a handle that
// its block keeps. Where a value stays, and for how long, is decided in activations.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/lower/blocks/handle.h"
#include "planner/plan/plan.h"
#include "planner/program/job/program.h"

namespace zplan {

// Read by backward; read by backward but dropped by selective recomputation, too; or dead when the
// forward of its layer has ended.
enum class Life : std::uint8_t { kBackward, kSelective, kForward };

struct ValueSpec {
  std::string name;
  Shape shape;  // of one tile where there is one for each
  DType dtype = DType::kF32;
  std::optional<LayerOperator> of{};  // whose replay gives it; nothing: the whole layer's alone
  bool tiled = false;
  Life life = Life::kBackward;
};

// Names a value; false: there is none.
using Value = Handle<ValueSpec>;

// In the order in which their buffers are made.
class Values {
 public:
  Value add(ValueSpec spec) {
    specs_.push_back(std::move(spec));
    return Value(specs_.size() - 1);
  }
  const std::vector<ValueSpec>& specs() const { return specs_; }

 private:
  std::vector<ValueSpec> specs_;
};

// A view of each, by its index; empty of what is not there.
using ValueViews = std::vector<View>;

}  // namespace zplan
