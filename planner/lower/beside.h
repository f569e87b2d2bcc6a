// The layers of a forward beside those of the backward of another micro-batch: one loop goes
// through both, upwards through the former and downwards through the latter. A layer has a part up
// to the launch of each exchange of tokens between experts, and one after the last; parts of the
// two take turns, so that what one exchanges has the compute of the other beside it [DeepSeek24b
// sec 3.2.1], [MegatronCore]:
//   backward   to the exchange of combine  | experts, exchange of dispatch |           | attention
//   forward                                  attention, router, exchange   | experts, exchange |
//   sum
// Of loops that go through different numbers of layers the rest stands alone.
#pragma once

#include <functional>

#include "planner/lower/layer_run.h"

namespace zplan {

class LayersBeside {
 public:
  struct Side {
    Pass pass;  // of a micro-batch so much ahead of that of the block
    LayerLoops loops;
  };
  // The buffers of the stage are those of the forward, those of the backward take turns with them.
  LayersBeside(Stage& stage, Side forward, Side backward)
      : s_(stage), forward_(std::move(forward)), backward_(std::move(backward)) {}

  void emit();

 private:
  using Parts = std::vector<RecordedPart>;

  void in(const Side& side, const std::function<void()>& emit);
  void alone(const Side& side, const LayerLoop& loop);
  void both(const LayerLoop& forward, const LayerLoop& backward);
  Parts record(const Side& side, const LayerLoop& loop);

  Stage& s_;
  Side forward_, backward_;
};

}  // namespace zplan
