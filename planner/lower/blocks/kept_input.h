// Backward reads this of the input of products, for the gradients of their weights: the input
// itself or, where a plan keeps codes (planner/plan/low_precision.h), these in its stead.
#pragma once

#include <string>

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

class KeptInput {
 public:
  KeptInput() = default;  // The input itself is read.
  // Codes of `input`, made where its forward gives that; rows are its last dimension.
  KeptInput(LayerMaker& maker, Part part, const ValueSpec& input);

  explicit operator bool() const { return static_cast<bool>(codes_); }
  // Emits the cast of x.
  void keep(LayerPass& to, const View& x) const;
  // Returns, in a backward, x or, where something reads it, scratch with what its codes stand for:
  // gradients of weights at least.
  View read(LayerPass& to, const View& x, bool is_read) const;
  View read(LayerPass& to, const View& x) const { return read(to, x, to.emits_weights()); }
  // Returns all tokens of x, which tensor parallel ranks may have to gather for the part: in a
  // forward or replay that gives x, and in a backward.
  View all_given(LayerPass& to, Part part, const View& x, const char* name) const;
  View all_kept(LayerPass& to, Part part, const View& x, const char* name) const;

 private:
  View decoded(LayerPass& to, const View& codes) const;

  Part part_{};
  Value codes_;
  Shape shape_;  // of the input
  DType dtype_{};
  std::string scratch_;
};

// States an input of products that backward reads for the gradients of their weights alone: where
// codes are kept it is dead when its forward has ended.
Value add_input(LayerMaker& maker, Part part, ValueSpec spec, KeptInput& kept);

}  // namespace zplan
