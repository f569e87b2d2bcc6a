// Factors of what stands side by side in the columns of a product, in place
// (models/part_factors.h). Gradients of these columns are multiplied by the same.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "models/part_factors.h"
#include "planner/lower/blocks/layer_pass.h"

namespace zplan {

struct ColumnFactor {
  std::int64_t columns = 0;  // of a rank
  std::int64_t factor = PartFactors::kOne;
};

class ColumnFactors {
 public:
  ColumnFactors() = default;
  explicit ColumnFactors(std::vector<ColumnFactor> columns) : columns_(std::move(columns)) {}

  void multiply(LayerPass& to, Part part, const View& x) const {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto [columns, factor] = columns_[i];
      if (factor != PartFactors::kOne)
        to.step(static_cast<std::int32_t>(i), [&] {
          to.kernel(part, Action::kScaleUpdate, KernelId::kScaleColumns, {update(as_rows(x))},
                    {first, columns, factor});
        });
      first += columns;
    }
  }

 private:
  std::vector<ColumnFactor> columns_;
};

}  // namespace zplan
