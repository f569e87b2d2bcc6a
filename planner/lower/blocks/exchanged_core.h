// The attention core and what context parallel ranks exchange around it (context_parallel.h):
// queries, keys and values are made outside, of the rank's tokens with all heads, and worked on
// inside, of whole sequences with the rank's heads; what the core gives comes back outside.
#pragma once

#include <functional>

#include "planner/lower/blocks/attention_core.h"
#include "planner/lower/blocks/context_parallel.h"

namespace zplan {

class ExchangedCore {
 public:
  // Of one tile of one rank, outside.
  ExchangedCore(LayerMaker& maker, const Heads& heads, const AttentionScores& scores);

  const Heads& heads() const { return inside_; }  // inside
  LayerMaker inside(const LayerMaker& maker) const { return ranks_.inside(maker); }

  // Where queries, keys and values are to be made, outside [T, c]; and how they come inside.
  View made(LayerPass& to) const {
    return ranks_.outside(to, "qkv.tokens", ranks_.reordered(to, "qkv.stretches", to[qkv_]),
                          qkv_columns_);
  }
  // What is done inside stretch by stretch is done to what enter() gives, before settle().
  View enter(LayerPass& to, const View& made) const;
  void settle(LayerPass& to, const View& entered) const {
    ranks_.put_in_order(to, Part::kQkv, entered, to[qkv_]);
  }
  Param sinks() const { return core_.sinks(); }
  void forward(LayerPass& to) const;
  View out(const LayerPass& to) const { return to[out_]; }  // outside, [T, a v]

  void replay(LayerPass& to) const { core_.replay(to, to[qkv_]); }
  // Adds up what heads give the keys that are chosen, where ranks exchange nothing.
  void shares(LayerPass& to, const View& given) const { core_.shares(to, to[qkv_], given); }
  // From the gradient of out() to that of what was made, outside both. `back` takes the gradient of
  // what enter() gave back over what was done to it.
  void backward(LayerPass& to, const View& dout, const View& dmade,
                const std::function<void(const View& dqkv)>& back) const;
  View out_gradient(LayerPass& to) const {
    return to.scratch_tokens("d.attention", out_columns_.all);
  }
  std::int64_t width() const { return qkv_columns_.all; }  // c

 private:
  ContextParallel ranks_;
  Heads inside_;
  ContextParallel::Columns qkv_columns_, out_columns_;
  Value qkv_;  // inside, as the core takes them
  AttentionCore core_;
  Value out_;
};

}  // namespace zplan
