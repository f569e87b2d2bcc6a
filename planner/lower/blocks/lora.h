// The two factors of LoRA beside the matrix of a product [Hu21 sec 4.1], as planner/plan/trained.h
// says. With a matrix that is cut by rows x A is a partial sum, as x W is, and is not added up
// before B: y is. Beside the matrices of experts each expert has two factors of its own, and the
// products are those of the rows of each expert (expert_rows.h).
#pragma once

#include <optional>
#include <string>

#include "planner/lower/blocks/expert_rows.h"
#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

struct LoraShape {
  std::int64_t in = 0, out = 0;
  Split split{};                     // of the matrix
  std::int64_t tokens = 0;           // that it takes, if not those of a layer
  std::optional<ExpertRows> rows{};  // of experts, each of which has such a matrix
};

class Lora {
 public:
  Lora(LayerMaker& maker, Part part, std::string_view tensor, const LoraShape& shape,
       OperatorSet of);

  // Whether a plan has factors beside this product of a layer.
  static bool is_beside(const Plan& plan, Part part);

  // Adds to y, and backward to dx. `counts`: of the rows of each expert.
  void forward(LayerPass& to, const View& x, const View& y, const View& counts = {}) const;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx,
                const View& counts = {}) const;

 private:
  void scale(LayerPass& to, const View& low) const;
  void multiply(LayerPass& to, Action action, const View& x, Param factor, const View& y,
                const View& counts) const;
  void input_gradient(LayerPass& to, Action action, const View& dy, Param factor, const View& dx,
                      const View& counts) const;
  void weight_gradient(LayerPass& to, Action action, const View& x, const View& dy, Param factor,
                       const View& counts) const;

  Part part_;
  std::int64_t rank_, alpha_;
  bool by_root_;
  std::optional<ExpertRows> rows_;
  Param down_, up_;  // [in, rank], [rank, out]; of experts [E, in, rank], [E, rank, out]
  Value low_;        // [T, rank], scaled; of experts [g, r, rank]
};

}  // namespace zplan
