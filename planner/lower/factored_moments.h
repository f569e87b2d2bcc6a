// Second moments by row and column [Shazeer18]: what a unit keeps of each of its tensors in place
// of a number for each element. Of a matrix, the last two dimensions of a tensor that may have
// several, that is one for each row and one for each column; of a vector one for each element.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

struct FactoredTensor {
  std::int64_t begin = 0;     // its first element in the flat unit
  std::int64_t matrices = 1;  // of rows x columns elements each; a vector has rows and 0 columns
  std::int64_t rows = 0, columns = 0;
  std::int64_t moments_from = 0;  // among those of the unit

  std::int64_t elements() const { return matrices * rows * (columns > 0 ? columns : 1); }
  std::int64_t moments() const { return matrices * (rows + columns); }
};

// Of a unit that no tensor parallel ranks, tiles or expert groups cut.
std::vector<FactoredTensor> factored_tensors(const Unit& unit);
std::int64_t factored_moments(const Unit& unit);

}  // namespace zplan
