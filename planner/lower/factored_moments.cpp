#include "planner/lower/factored_moments.h"

namespace zplan {

std::vector<FactoredTensor> factored_tensors(const Unit& unit) {
  std::vector<FactoredTensor> result;
  std::int64_t from = 0;
  for (const Tensor& tensor : unit.tensors) {
    const Shape& shape = tensor.shape;
    FactoredTensor own{.begin = tensor.offset, .rows = shape[0], .moments_from = from};
    if (shape.rank > 1) {
      own.rows = shape[shape.rank - 2];
      own.columns = shape[shape.rank - 1];
      own.matrices = shape.elements() / (own.rows * own.columns);
    }
    from += own.moments();
    result.push_back(own);
  }
  return result;
}

std::int64_t factored_moments(const Unit& unit) {
  std::int64_t sum = 0;
  for (const FactoredTensor& tensor : factored_tensors(unit)) sum += tensor.moments();
  return sum;
}

}  // namespace zplan
