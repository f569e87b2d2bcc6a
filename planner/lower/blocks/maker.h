// What a block is made with: sizes, the names and initialisation of the model's family, and where
// it states its parameters; of a layer also where it states what it leaves for backward.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "planner/lower/blocks/naming.h"
#include "planner/lower/blocks/param.h"
#include "planner/lower/blocks/value.h"
#include "planner/lower/sizes.h"

namespace zplan {

struct Maker : Sizes {
  Naming naming;
  ParamTable& params;

  // A vector that all ranks have alike; `summed` as in ParamSpec.
  Param vector(std::string_view tensor, std::string_view suffix, std::int64_t width, Init init,
               bool summed = false) {
    const Shape shape{width};
    return params.add({naming.of(tensor, suffix), shape, shape, init, 0, false, {}, summed});
  }
  // One that is not split is summed.
  Param matrix(std::string_view tensor, const Shape& shape, double std, Split split) {
    const bool summed = split.kind == Split::Kind::kNone;
    return params.add({naming.of(tensor, ".weight"), shape, shape, Init::kNormal, std, true,
                       std::move(split), summed});
  }
};

struct LayerMaker : Maker {
  Values& values;
  // Whether backward reads what the branches give, as it lies where their last product left it.
  bool keeps_sums = false;
};

}  // namespace zplan
