// RMSNorm [Zhang19] of heads side by side in x [b, s, n, d], in place, each over its d elements,
// with one gain for all of them. What they were is kept beside. Each rank and tile has some of the
// heads, so that the gradient of the gain is summed over both.
#pragma once

#include <string>

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"
#include "planner/program/kernels/attribute_values.h"

namespace zplan {

class HeadNorm {
 public:
  // Of so many heads of `size` elements of a tile, from a first one on; `op` gives them.
  HeadNorm(LayerMaker& maker, Part part, const char* tensor, std::int64_t first, std::int64_t heads,
           std::int64_t size, std::int64_t epsilon, LayerOperator op)
      : part_(part),
        first_(first),
        epsilon_(epsilon_attribute(epsilon)),
        gain_(maker.vector(tensor, ".weight", size, Init::kOne, true)),
        kept_(maker.values.add({.name = std::string(tensor) + ".input",
                                .shape = {maker.b(), maker.s(), heads, size},
                                .dtype = maker.compute(),
                                .of = op,
                                .tiled = true})),
        rstd_(maker.values.add({.name = std::string(tensor) + ".rstd",
                                .shape = {maker.b(), maker.s(), heads},
                                .dtype = maker.kernels.statistics,
                                .of = op,
                                .tiled = true})) {}

  void forward(LayerPass& to, const View& x) const {
    to.kernel(part_, KernelId::kHeadNormForward,
              {update(x), to.parameter(gain_), write(to[kept_]), write(to[rstd_])},
              {first_, epsilon_});
  }
  void backward_before_tiles(LayerPass& to) const {
    if (to.emits_inputs()) to.clear_for_tiles(part_, gain_);
  }
  // The gradient of the result becomes that of x.
  void backward(LayerPass& to, const View& dx) const {
    if (!to.emits_inputs()) return;
    const View gain = to.parameter(gain_);
    to.kernel(
        part_, KernelId::kHeadNormBackward,
        {update(dx), read(to[kept_]), read(to[rstd_]), gain, to.add_tiles(gain_), to.workspace()},
        {first_});
  }
  void backward_after_tiles(LayerPass& to) const {
    if (!to.emits_inputs()) to.take_gradient(part_, gain_, false);
  }

 private:
  Part part_;
  std::int64_t first_, epsilon_;
  Param gain_;         // [d]
  Value kept_, rstd_;  // [b, s, m, d], [b, s, m]
};

}  // namespace zplan
