// Forward and backward of one pre-LayerNorm GPT-2 layer [Radford19 sec 2.3], as kernels:
//   norm1, qkv, attention, projection, + input;  norm2, fc1, gelu, fc2, + middle
#pragma once

#include "planner/lower/activations.h"
#include "planner/lower/gradients.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"

namespace zplan {

class DecoderLayer {
 public:
  DecoderLayer(Stage& stage, Parameters& parameters, Gradients& gradients,
               Activations& activations);

  void forward();  // inside Stage::layers_up
  // Inside Stage::layers_down; dx [T, h] holds the gradient of the output, then of the input.
  void backward(const View& dx, bool last_micro);

 private:
  // Fetches the unit that holds a parameter, unless the surrounding loop body has it already.
  View parameter(Phase phase, Param param);
  void start(std::int32_t fetches_per_layer, bool upwards);
  Ordinal ordinal(std::int32_t per_layer, std::int32_t use) const;

  void run(Phase phase, const View& input, const LayerActivations& a, const View& output);
  void attention_half(Phase phase, const View& x, const LayerActivations& a);
  void mlp_half(Phase phase, const LayerActivations& a, const View& output);
  void mlp_backward(const LayerActivations& a, const View& dx, bool last);
  void attention_backward(const View& input, const LayerActivations& a, const View& dx, bool last);
  View scratch(const char* name, std::int64_t width) const;  // [T, width] within the body
  View gradient(Param param);  // opens the unit's gradients on first use
  void done(Param param, bool last);

  Stage& s_;
  Parameters& parameters_;
  Gradients& gradients_;
  Activations& activations_;
  // State of the loop body being emitted.
  std::optional<Parameters::Resident> resident_;
  std::optional<Gradients::Open> open_;
  std::int32_t fetches_ = 0, fetches_per_layer_ = 1, opened_ = 0;
  bool upwards_ = true;
};

}  // namespace zplan
