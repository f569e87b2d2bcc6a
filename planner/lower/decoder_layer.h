// Forward and backward of one decoder layer, as kernels [Radford19 sec 2.3], [Touvron23]:
//   norm1, qkv, (rotate), attention, projection, + input;  norm2, fc1, gelu, fc2, + middle
// The model says which norm, whether gelu stands for GELU or SwiGLU, and which biases there are.
// Kernel sets that fuse neighbours have a GELU in the products beside it and the sum of the
// residual in the norm that follows.
//
// Products with matrices split by rows leave partial sums; these are added over tiles, then over
// ranks (tensor_parallel.h), the bias once, together with the residual.
#pragma once

#include "planner/lower/activations.h"
#include "planner/lower/attention.h"
#include "planner/lower/checkpoints.h"
#include "planner/lower/gradients.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"
#include "planner/lower/tensor_parallel.h"

namespace zplan {

class DecoderLayer {
 public:
  DecoderLayer(Stage& stage, const Segment& segment, std::size_t number, Parameters& parameters,
               Gradients& gradients, Checkpoints& checkpoints);

  void forward();  // inside Segment::up
  // Inside Segment::down; dx [T, h] holds the gradient of the output, then of the input.
  void backward(const View& dx, bool last_micro);

 private:
  // The how-many-th of the uses of a ring within the layer comes next.
  struct Uses {
    std::int32_t per_layer = 1;
    std::int32_t next = 0;
    std::int32_t per_tile = 0;  // inside a loop over the tiles
  };
  static constexpr std::int32_t kOperatorsPerHalf = 2;

  // Fetches the unit that holds a parameter, unless the surrounding loop body has it already.
  View parameter(Phase phase, Param param);
  void start(std::int32_t fetches_per_member, bool upwards);
  Ordinal take(Uses& uses) const;
  Ordinal once_per_layer() const;
  void each_tile(const std::function<void()>& emit);
  std::int32_t fetches_per_pass() const;
  std::int32_t fetches_per_backward() const;

  void run(Phase phase, const View& input, const LayerActivations& a, const View& output);
  void norm(Phase phase, Part part, const View& x, Param gain, Param bias, const View& y,
            const View& mean, const View& rstd);
  void linear(Phase phase, Part part, const View& x, Param weight, Param bias, const View& y);
  void partial_product(Phase phase, Part part, const View& x, Param weight, const View& y);
  void replay_operators(const View& input, const LayerActivations& a);
  void replay_mlp(const LayerActivations& a);
  void gelu(Phase phase, const LayerActivations& a);
  void fc1_and_gelu(Phase phase, const View& x, const LayerActivations& a);
  bool fuses_middle() const;
  void middle(Phase phase, const View& x, const View& sum, const LayerActivations& a);
  void residual(Phase phase, Part part, const View& x, const View& y, Param bias, const View& mask,
                const View& out);
  void dropout_residual(Phase phase, Part part, const View& x, const View& y, Param bias,
                        const View& mask, const View& out);
  void attention_half(Phase phase, const View& x, const LayerActivations& a);
  void mlp_half(Phase phase, const LayerActivations& a, const View& output);

  View added_gradient(Part part, const View& dx, const View& mask);
  void mlp_backward(const LayerActivations& a, const View& dx, bool last);
  void attention_backward(const View& input, const LayerActivations& a, const View& dx, bool last);
  void bias_gradient(Part part, const View& dx, Param bias);
  void row_weight_gradient(Part part, const View& x, const View& dy, Param weight);
  void row_product_backward(Part part, const View& x, const View& dy, Param weight, const View& dx);
  void column_product_backward(Part part, const View& x, const View& dy, Param weight, Param bias,
                               const View& dx);
  View fc2_backward(const LayerActivations& a, const View& dy, bool last);
  View gelu_backward(const LayerActivations& a, const View& dfc);
  void norm_backward(Part part, const View& dy, const View& x, const View& mean, const View& rstd,
                     Param gain, Param bias, const View& dx);
  Access tile_access() const { return s_.tiles() > 1 ? Access::kUpdate : Access::kWrite; }
  void clear_for_tiles(Phase phase, Part part, const View& sum);
  View scratch(const char* name, std::int64_t width) const;  // [T, width] within the body
  View gradient(Param param);  // opens the unit's gradients on first use
  void done(Param param, bool last);
  void finish(bool last);

  Stage& s_;
  const Segment& segment_;
  Parameters& parameters_;
  Gradients& gradients_;
  Checkpoints& checkpoints_;
  Activations activations_;
  AttentionCore attention_;
  TensorParallel ranks_;
  // State of the loop body being emitted. The unit beside the tiles stays for the whole layer.
  std::optional<Parameters::Resident> resident_, shared_resident_;
  std::optional<Gradients::Open> open_, shared_open_;
  Uses fetches_, opened_;
  bool upwards_ = true;
};

}  // namespace zplan
