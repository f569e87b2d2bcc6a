// Kimi delta attention as a mixer [KimiTeam25 sec 4] (models/layer_pattern.h): a gated delta net
// whose decays, one of each channel of a key, and whose gate are products of two matrices each.
//
//   q, k, v, b   of one product of x; a convolution of the former three
//   decays       x W_fa W_fb, one of each channel of a key
//   result       norm(recurrence) sigmoid(x W_ga W_gb), before the last product
//
// Ranks cut heads. The short vectors x W_fa and x W_ga are whole on each, so that gradients of
// their matrices are summed over the ranks, as those of latents are (latent_attention.h).
#pragma once

#include <string>
#include <vector>

#include "models/layer_pattern.h"
#include "planner/lower/blocks/body.h"
#include "planner/lower/blocks/channel_convolution.h"

namespace zplan {

// A product of two matrices with a short vector between them.
class LowProduct {
 public:
  struct Names {
    Part down_part, up_part;
    const char *down, *up;
  };
  LowProduct(LayerMaker& maker, const Names& names, std::int64_t low, std::int64_t width);

  void forward(LayerPass& to, const View& x) const;
  // The gradient of what it gives, for backward.
  View gradient(LayerPass& to) const;
  // Adds to dx.
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const;
  Use use() const { return up_.use(); }
  const View& result(const LayerPass& to) const { return to[out_]; }

 private:
  std::int64_t low_width_;
  std::string dlow_, dout_;  // names of gradients
  Linear down_, up_;         // [h, r], [r, w]
  Value low_, out_;          // [T, r], [b, s, w]
};

class KimiDelta : public Body {
 public:
  KimiDelta(LayerMaker& maker, const KimiShape& shape, std::int64_t norm_epsilon);

  std::vector<Use> uses() const override { return {decay_.use(), in_.use(), out_.linear.use()}; }
  BodyResult result() const override { return out_; }
  void forward(LayerPass& to, const View& x) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;

 private:
  View states(LayerPass& to, bool backward) const;
  void mix_backward(LayerPass& to, const View& dnormed, const View& din, const View& ddecay,
                    const View& dgate) const;
  void take_gradients(LayerPass& to) const;

  std::int64_t epsilon_;
  KimiShape shape_;  // of a rank
  LowProduct decay_, gate_;
  Linear in_;  // [h, w]
  ChannelConvolution conv_;
  Param dt_bias_, a_log_, gain_;  // [k], [n], [v / n]
  Value in_out_, convolved_, y_, normed_,
      rstd_;         // [b, s, w], [b, s, c], [b, s, v] twice, [b, s, n]
  LastProduct out_;  // [v, h]
};

}  // namespace zplan
