// Rotation of queries and keys by their positions [Su21], in place: of the whole head or its first
// elements, as if positions were closer by some factor.
#pragma once

#include "planner/lower/blocks/emission.h"

namespace zplan {

struct RopeShape {
  std::int64_t theta = 0;
  std::int64_t size = 0;     // elements that turn; 0: all
  std::int64_t stretch = 1;  // by which positions are divided
};

class Rope {
 public:
  explicit Rope(const RopeShape& shape, Part part = Part::kRope) : shape_(shape), part_(part) {}

  bool turns() const { return shape_.theta > 0; }
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
    const std::int64_t stretch = shape_.stretch == 1 ? 0 : shape_.stretch;
    stretches.each([&](std::int32_t i) {
      to.kernel(
          part_, KernelId::kRope, {update(stretches.part(by_stretch, i))},
          {heads, shape_.theta, direction, stretches.begin_together(i), shape_.size, stretch});
    });
  }

  RopeShape shape_;
  Part part_;
};

}  // namespace zplan
