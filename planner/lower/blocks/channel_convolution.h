// A causal convolution of each channel with the last tokens and SiLU, of some columns of a product
// [Dao24 sec 7]. What is side by side in these columns is cut each for itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

struct ConvolutionKind {
  std::vector<std::int64_t> widths;  // of what is side by side, of all ranks together
  std::int64_t taps = 0;             // tokens
  bool bias = false;
};

class ChannelConvolution {
 public:
  ChannelConvolution(LayerMaker& maker, const std::string& tensor, const ConvolutionKind& kind);

  // Writes y [b, s, c] from the columns of x [b, s, w] from `first` on.
  void forward(LayerPass& to, const View& x, std::int64_t first, const View& y) const;
  // Overwrites those columns of dx with their gradient.
  void backward(LayerPass& to, const View& dy, const View& x, std::int64_t first,
                const View& dx) const;
  // Takes, in the second part of a backward, the gradients that the first has given.
  void take_gradients(LayerPass& to) const;
  // [k, c] of a rank
  Param weight() const { return weight_; }

 private:
  Param weight_, bias_;  // [k, c], [c]
};

}  // namespace zplan
