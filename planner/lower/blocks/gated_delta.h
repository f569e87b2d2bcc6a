// A gated delta net as a mixer [Yang24b sec 3] (models/layer_pattern.h). Ranks cut heads of keys
// and of values.
#pragma once

#include "models/layer_pattern.h"
#include "planner/lower/blocks/state_mixer.h"

namespace zplan {

class GatedDelta : public StateMixer {
 public:
  GatedDelta(LayerMaker& maker, const DeltaShape& shape, std::int64_t norm_epsilon);

 private:
  void scan(LayerPass& to, const View& x, const View& in, const View& y) const override;
  void scan_backward(LayerPass& to, const View& dy, const View& x, const View& in, const View& dx,
                     const View& din) const override;
  Attributes attributes() const { return {shape_.key_heads, shape_.key_size, shape_.chunk}; }
  Param dt_bias() const { return vector(0); }
  Param a_log() const { return vector(1); }
  View states(LayerPass& to, const View& x, bool backward) const;

  DeltaShape shape_;  // of a rank
};

}  // namespace zplan
