// Mamba-1 as a mixer [Gu23 sec 3] with the norms of Jamba [Lieber24]
// (models/layer_pattern.h):
//
//   z, u      one product of x; a convolution of u
//   r, B, C   three products of u, each normalised; all tensor parallel ranks have them whole
//   steps     r W + bias, one of each channel
//   result    (recurrence of u) silu(z), before the last product
//
// Ranks cut channels. Each has a part of the three products, which are added up over the ranks, and
// in backward a part of the gradients of r, B and C, which are added up before those of the
// products.
#pragma once

#include <array>

#include "models/layer_pattern.h"
#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/channel_convolution.h"
#include "planner/lower/blocks/norm.h"

namespace zplan {

class SelectiveMamba : public Body {
 public:
  SelectiveMamba(LayerMaker& maker, const SelectiveShape& shape, std::int64_t norm_epsilon);

  std::vector<Use> uses() const override { return {in_.use(), out_.linear.use()}; }
  BodyResult result() const override { return out_; }
  void forward(LayerPass& to, const View& x) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;

 private:
  // A short vector of a token: r, B or C.
  struct Short {
    Linear down;  // [c, l]
    NormBlock norm;
    Value rstd;  // [T]
    std::int64_t first, width;
  };
  static Short make_short(LayerMaker& maker, const SelectiveShape& shape, std::size_t which,
                          std::int64_t epsilon);
  // Returns what is normalised: r, or B or C side by side, as one of them.
  View one_of(View vectors, std::size_t which) const;
  View normed(const LayerPass& to, std::size_t which) const;
  Normed result_of(const LayerPass& to, std::size_t which) const {
    return {normed(to, which), {}, to[shorts_[which].rstd]};
  }
  // Returns, of what all of them have side by side, [T l], the part of one.
  static View of_short(View all, const Short& each, std::int64_t tokens);
  View by_sequence(View of, std::int64_t width) const;
  void mix_backward(LayerPass& to, const View& dgated, const View& din, const View& dstep,
                    const View& dconvolved) const;
  void low_backward(LayerPass& to, const View& dlow, const View& dstep,
                    const View& dconvolved) const;
  View vector_gradients(LayerPass& to) const;
  View short_gradient(LayerPass& to) const;

  std::int64_t b_, s_, channels_, low_width_;  // channels of a rank
  Linear in_;                                  // [h, 2 c]
  ChannelConvolution conv_;
  std::array<Short, 3> shorts_;     // r, B, C
  Linear step_up_;                  // [r, c]
  Param a_log_, d_;                 // [n, c], [c]
  Value in_out_, convolved_, low_;  // [b, s, 2 c], [b, s, c], [T l]
  Value short_, vectors_;           // [T, r], [2, b, s, n]
  Value step_, y_, gated_;          // [b, s, c] each
  LastProduct out_;                 // [c, h]
};

}  // namespace zplan
