// Two mixers of a layer that read the same norm, of which the results are added [Zuo25].
#pragma once

#include <memory>
#include <vector>

#include "planner/lower/blocks/body.h"

namespace zplan {

class SideBySide : public Body {
 public:
  SideBySide(std::unique_ptr<Body> first, std::unique_ptr<Body> second);

  std::vector<Use> uses() const override { return joined(first_->uses(), second_->uses()); }
  std::vector<Use> all_uses() const override {
    return joined(first_->all_uses(), second_->all_uses());
  }
  bool reads_input(const LayerPass& to) const override {
    return first_->reads_input(to) || second_->reads_input(to);
  }
  BodyResult result() const override { return second_->result(); }
  void forward_before_tiles(LayerPass& to, const View& x) const override;
  void forward(LayerPass& to, const View& x) const override;
  void backward_before_tiles(LayerPass& to) const override;
  void backward(LayerPass& to, const View& x, const View& dy, const View& dx) const override;
  void backward_after_tiles(LayerPass& to, const View& x, const View& dx) const override;

 private:
  static std::vector<Use> joined(std::vector<Use> first, const std::vector<Use>& second);

  std::unique_ptr<Body> first_, second_;
};

}  // namespace zplan
