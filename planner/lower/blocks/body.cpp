#include "planner/lower/blocks/body.h"

namespace zplan {
namespace {

Linear by_rows(LayerMaker& maker, Part part, const std::string& op_name, const char* tensor,
               std::int64_t in, bool bias, OperatorSet of) {
  maker.params.begin(op_name, part);
  return {maker,
          part,
          tensor,
          {.in = in, .out = {maker.h()}, .cut = Split::Kind::kRows, .bias = bias},
          of};
}

}  // namespace

LastProduct::LastProduct(LayerMaker& maker, Part part, const std::string& op_name,
                         const char* tensor, std::int64_t in, bool bias, OperatorSet of)
    : linear(by_rows(maker, part, op_name, tensor, in, bias, of)),
      partial(maker.values.add(
          {.name = tensor,
           .shape = {maker.tokens(), maker.h()},
           .dtype = maker.compute(),
           .of = of,
           .life = maker.keeps_sums ? Life::kBackward : Life::kForward,
           .in_backward = of.has(LayerOperator::kProjection) ? Read::kLate : Read::kFirst})) {}

}  // namespace zplan
