// What a branch of a layer computes between its norm and its sum: of all tokens, tile by tile, each
// rank of a tensor parallel group a part of the result.
#pragma once

#include <vector>

#include "planner/lower/blocks/layer_pass.h"

namespace zplan {

class Body {
 public:
  virtual ~Body() = default;

  // Its parameters that units are brought for, in forward order.
  virtual std::vector<Use> uses() const = 0;
  // The bias of its last product, which is added with the residual.
  virtual Param bias() const = 0;
  // The partial sum that it leaves [T, h], and the part of the model that gives it.
  virtual Value partial() const = 0;
  virtual Part part() const = 0;

  // From x [T, h] to the partial sum.
  virtual void forward(LayerPass& to, const View& x) const = 0;
  // From the gradient dy of the sum to dx, to which tiles add.
  virtual void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const = 0;
};

}  // namespace zplan
