// A gated short convolution as a mixer [Liquid25] (models/layer_pattern.h): one product gives two
// gates and what is convolved, of which tensor parallel ranks cut the channels.
#pragma once

#include <vector>

#include "models/layer_pattern.h"
#include "planner/lower/blocks/body.h"

namespace zplan {

class ShortConvolution : public Body {
 public:
  ShortConvolution(LayerMaker& maker, const ShortShape& shape);

  std::vector<Use> uses() const override { return {in_.use(), out_.linear.use()}; }
  BodyResult result() const override { return out_; }
  void forward(LayerPass& to, const View& x) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;

 private:
  Linear in_;             // [h, 3 c]
  Param weight_;          // [k, c]
  Value in_out_, mixed_;  // [b, s, 3 c], [b, s, c]
  LastProduct out_;       // [c, h]
};

}  // namespace zplan
