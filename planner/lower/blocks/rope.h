// Rotation of queries and keys by their positions [Su21], in place.
#pragma once

#include "planner/lower/blocks/emission.h"

namespace zplan {

class Rope {
 public:
  explicit Rope(std::int64_t theta) : theta_(theta) {}

  // The first so many heads of x [b, s, n, d], whose stretches lie apart (stretches.h).
  void forward(Emission& to, const View& x, std::int64_t heads) const { rotate(to, x, heads, 1); }
  // Of their gradient.
  void backward(Emission& to, const View& dx, std::int64_t heads) const {
    if (to.emits_inputs()) rotate(to, dx, heads, -1);
  }

 private:
  void rotate(Emission& to, const View& x, std::int64_t heads, std::int64_t direction) const {
    const Stretches stretches = to.stretches();
    View by_stretch = x;
    by_stretch.shape.dims[0] *= stretches.count();
    by_stretch.shape.dims[1] /= stretches.count();
    stretches.each([&](std::int32_t i) {
      to.kernel(Part::kRope, KernelId::kRope, {update(stretches.part(by_stretch, i))},
                {heads, theta_, direction, stretches.begin_together(i)});
    });
  }

  std::int64_t theta_;
};

}  // namespace zplan
