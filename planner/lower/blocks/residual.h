// The sum of what a branch of the layer gives and its input, with the bias of the branch's last
// product and dropout [Srivastava14] of both. What it gives may be taken some times first.
#pragma once

#include <optional>

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"
#include "planner/lower/blocks/norm.h"

namespace zplan {

class Residual {
 public:
  // `of`: the operators whose replay computes it again. `mask`: name of what dropout leaves.
  // `factor`: of what the branch gives, in units of 1 / kFactorUnit.
  Residual(LayerMaker& maker, Part part, OperatorSet of, const char* mask,
           std::int64_t factor = kFactorUnit);

  // out = x + y.
  void forward(LayerPass& to, const View& x, const View& y, Param bias, const View& out) const;
  // The same and its norm: in one kernel where the kernel set has that.
  void forward_and_norm(LayerPass& to, const View& x, const View& y, Param bias, const View& out,
                        const NormBlock& norm, const Normed& result) const;
  bool fuses(const LayerPass& to, Param bias, const NormBlock& norm) const;
  // The gradient of y from that of out. `stays`: the second part of a backward reads it.
  View backward(LayerPass& to, const View& dout, bool stays = true) const;
  Part part() const { return part_; }
  OperatorSet of() const { return of_; }

 private:
  bool scales() const { return factor_ != kFactorUnit; }
  // Scales x in place, as a second step of the part.
  void scale(LayerPass& to, const View& x) const;

  Part part_;
  OperatorSet of_;
  bool fuses_neighbours_;
  std::int64_t factor_;
  Value mask_;  // [T, h], with dropout
};

}  // namespace zplan
