// The two factors of LoRA beside the matrix of a product [Hu21 sec 4.1], as planner/plan/trained.h
// says. With a matrix that is cut by rows x A is a partial sum, as x W is, and is not added up
// before B: y is.
#pragma once

#include <optional>
#include <string>

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"

namespace zplan {

struct LoraShape {
  std::int64_t in = 0, out = 0;
  Split split{};  // of the matrix
};

class Lora {
 public:
  Lora(LayerMaker& maker, Part part, std::string_view tensor, const LoraShape& shape,
       std::optional<LayerOperator> op);

  // Whether a plan has factors beside this product of a layer.
  static bool is_beside(const Plan& plan, Part part);

  void forward(LayerPass& to, const View& x, const View& y) const;                    // adds to y
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const;  // and to dx

 private:
  void scale(LayerPass& to, const View& low) const;

  Part part_;
  std::int64_t rank_, alpha_;
  Param down_, up_;  // [in, rank], [rank, out]
  Value low_;        // [T, rank], scaled
};

}  // namespace zplan
