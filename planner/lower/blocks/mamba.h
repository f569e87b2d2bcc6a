// Mamba-2 as a mixer [Dao24 sec 7] (models/layer_pattern.h); ranks cut it as Megatron-LM's do
// [MegatronCore]: heads, and the groups that share B and C.
#pragma once

#include "models/layer_pattern.h"
#include "planner/lower/blocks/state_mixer.h"

namespace zplan {

class Mamba : public StateMixer {
 public:
  Mamba(LayerMaker& maker, const MambaShape& shape, const PartFactors& factors,
        std::int64_t norm_epsilon);

 private:
  void scan(LayerPass& to, const View& x, const View& in, const View& y) const override;
  void scan_backward(LayerPass& to, const View& dy, const View& x, const View& in, const View& dx,
                     const View& din) const override;
  Attributes attributes() const { return {shape_.groups, shape_.state, shape_.chunk}; }
  Param dt_bias() const { return vector(0); }
  Param a_log() const { return vector(1); }
  Param d() const { return vector(2); }
  View states(LayerPass& to, const View& x, bool backward) const;

  MambaShape shape_;  // of a rank
};

}  // namespace zplan
