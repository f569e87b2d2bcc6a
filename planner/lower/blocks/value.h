// What the forward of a layer leaves for later, as its blocks state it, each named by a handle that
// its block keeps. Where a value stays, and for how long, is decided in activations.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace zplan {

// Names a value; false: there is none.
class Value {
 public:
  Value() = default;
  explicit Value(std::size_t index) : index_(static_cast<std::int32_t>(index)) {}
  explicit operator bool() const { return index_ >= 0; }
  std::size_t index() const { return static_cast<std::size_t>(index_); }

 private:
  std::int32_t index_ = -1;
};

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
