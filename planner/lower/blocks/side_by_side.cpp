#include "planner/lower/blocks/side_by_side.h"

#include <utility>

namespace zplan {

SideBySide::SideBySide(std::unique_ptr<Body> first, std::unique_ptr<Body> second)
    : first_(std::move(first)), second_(std::move(second)) {}

std::vector<Use> SideBySide::joined(std::vector<Use> first, const std::vector<Use>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void SideBySide::forward_before_tiles(LayerPass& to, const View& x) const {
  first_->forward_before_tiles(to, x);
  second_->forward_before_tiles(to, x);
}

void SideBySide::forward(LayerPass& to, const View& x) const {
  first_->forward(to, x);
  second_->forward(to, x);
  if (to.emits_all()) to.add_tile(first_->part(), to[first_->partial()], to[second_->partial()]);
}

void SideBySide::backward_before_tiles(LayerPass& to) const {
  second_->backward_before_tiles(to);
  first_->backward_before_tiles(to);
}

void SideBySide::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  second_->backward(to, x, dy, dx);
  first_->backward(to, x, dy, update(dx));
}

void SideBySide::backward_after_tiles(LayerPass& to, const View& x, const View& dx) const {
  second_->backward_after_tiles(to, x, dx);
  first_->backward_after_tiles(to, x, dx);
}

}  // namespace zplan
