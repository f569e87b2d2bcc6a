// A product with a matrix that ranks and tiles cut [Shoeybi19 sec 3].
//
// By columns: each has all of x and gives its columns of y, with their bias; what is side by side
// in y, say queries, keys and values, is cut each for itself. By rows: each gives a partial sum of
// y. These are added over tiles and ranks, the bias once, with what follows (residual.h). Not at
// all: each rank has all of y, once for all tiles, and of its gradient what its own columns of the
// products that follow give. A plan may have factors of LoRA beside it (lora.h).
#pragma once

#include <optional>
#include <vector>

#include "planner/lower/blocks/lora.h"

namespace zplan {

struct LinearShape {
  std::int64_t in = 0;
  std::vector<std::int64_t> out;  // widths of what is side by side, of all pieces together
  Split::Kind cut = Split::Kind::kColumns;
  bool bias = false;
  std::int64_t tokens = 0;  // that it takes, if not those of a layer
};

// The operand of a product of a layer as kernels of the set take it
// (planner/program/kernels/kernel_set.h). `action` says which one it is.
View rounded_operand(Emission& to, Part part, Action action, const View& x);

class Linear {
 public:
  // `of`: the operators whose replay computes it again.
  Linear(LayerMaker& maker, Part part, std::string_view tensor, const LinearShape& shape,
         OperatorSet of);

  // Writes y, or adds to it where its access says so and there is no bias.
  void forward(LayerPass& to, const View& x, const View& y) const;
  // The same, of columns with a bias, and GELU of it in one kernel.
  void forward_and_gelu(LayerPass& to, const View& x, const View& y, const View& gelu) const;
  // Writes dx or, as its access says, adds to it. With `before_gelu` one kernel gives the gradient
  // of that in dx: x is its GELU.
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx,
                const View* before_gelu = nullptr) const;

  // The gradients of weights alone, where nothing before x gets one.
  void gradient(LayerPass& to, const View& x, const View& dy) const;

  Part part() const { return part_; }
  Param weight() const { return weight_; }
  Param bias() const { return bias_; }
  // Whether y and dx are no more than what one product gives.
  bool stands_alone() const { return !lora_; }
  Use use() const { return {of_, weight_}; }

 private:
  bool by_rows() const { return cut_ == Split::Kind::kRows; }
  void weight_backward(LayerPass& to, const View& x, const View& dy) const;
  View rounded_gradient(LayerPass& to, const View& gradient) const;
  View weight(LayerPass& to) const;
  View rounded(LayerPass& to, Action action, const View& x) const {
    return rounded_operand(to, part_, action, x);
  }

  Part part_;
  Split::Kind cut_;
  OperatorSet of_;
  Param weight_, bias_;  // [in, out], [out]
  std::optional<Lora> lora_;
};

}  // namespace zplan
