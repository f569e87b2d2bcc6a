// What a branch of a layer computes between its norm and its sum: of all tokens, tile by tile, each
// rank of a tensor parallel group a part of the result. What is of all tiles together stands before
// their loop and, of a backward, after it.
#pragma once

#include <vector>

#include "planner/lower/blocks/linear.h"

namespace zplan {

// The product that ends a body: by rows, into a partial sum [T, h].
struct LastProduct {
  LastProduct(LayerMaker& maker, Part part, const std::string& op_name, const char* tensor,
              std::int64_t in, bool bias, OperatorSet of);

  Linear linear;
  Value partial;
};

// What a body leaves: a partial sum [T, h], the bias that is added to it with the residual, and the
// part of the model that gives it.
struct BodyResult {
  BodyResult(const LastProduct& last)
      : partial(last.partial), bias(last.linear.bias()), part(last.linear.part()) {}
  BodyResult(Value partial, Part part) : partial(partial), part(part) {}

  Value partial;
  Param bias{};
  Part part;
};

class Body {
 public:
  virtual ~Body() = default;

  // Its parameters that units are brought for, in forward order: one of each operator.
  virtual std::vector<Use> uses() const = 0;
  // The same with what else an operator reads apart, in the order in which that comes.
  virtual std::vector<Use> all_uses() const { return uses(); }
  // Whether its forward, or what of it is replayed, reads x.
  virtual bool reads_input(const LayerPass& to) const { return to.emits(uses().front().of); }
  virtual BodyResult result() const = 0;
  // Whether tensor parallel ranks each work on their own tokens and give the whole of these.
  virtual bool has_own_tokens() const { return false; }
  Param bias() const { return result().bias; }
  Value partial() const { return result().partial; }
  Part part() const { return result().part; }

  // From x [T, h] to the partial sum.
  virtual void forward_before_tiles(LayerPass&, const View& /*x*/) const {}
  virtual void forward(LayerPass& to, const View& x) const = 0;
  // From the gradient dy of the sum to dx, to which tiles add.
  virtual void backward_before_tiles(LayerPass&) const {}
  virtual void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const = 0;
  virtual void backward_after_tiles(LayerPass&, const View& /*x*/, const View& /*dx*/) const {}
};

}  // namespace zplan
